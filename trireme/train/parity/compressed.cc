// See compressed.h.
#include "trireme/train/parity/compressed.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/rng.h"
#include "trireme/exchange/choice.h"
#include "trireme/optim/update.h"
#include "trireme/train/parity/written_methods.h"

namespace trireme::parity {
namespace {

// Of the largest number: what methods do in f32 with sums of the lengths that matrices here have. Those that
// divide by lengths, or turn vectors, blow rounding up.
constexpr double kUsual = 2e-5, kLengths = 2e-3, kHalf16 = 0x1p-9, kHalfBf16 = 0x1p-6;

double tolerance_of(const ExchangeChoice& choice) {
  const std::string_view method = choice.method->name;
  if (method == "power_sgd" || method == "atomo" || method == "one_bit_adam") return kLengths;
  if (!choice.settings.words.contains("wire")) return kUsual;
  const std::string& wire = choice.settings.word("wire");
  return wire == "bf16" ? kHalfBf16 : wire == "f16" ? kHalf16 : kUsual;
}

double largest_of_all(const Doubles& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

std::string kept_name(std::string_view what, std::string_view parameter) {
  return fmt::format("{}{}.{}", kKeptPrefix, what, parameter);
}

// What a method makes of a step; and how far each number may be from that where rounding decides a choice:
// which elements are sent, up or down, one sign or the other.
struct Written {
  Exchanged what, either;
};

// Where choices are of single numbers, by what becomes of them when all that is chosen from is moved a
// little.
Written written_out(const ExchangeChoice& choice, const Exchanged& before) {
  Written result{before, before};
  run_written(choice, result.what);
  Exchanged& either = result.either;
  either.sum.assign(result.what.sum.size(), 0);
  for (auto& [what, of_ranks] : either.kept) {
    for (size_t r = 0; r < of_ranks.size(); ++r) of_ranks[r].assign(result.what.kept.at(what)[r].size(), 0);
  }
  if (tolerance_of(choice) != kUsual) return result;
  constexpr double kMove = 1e-6;
  // The first two move all numbers alike, so that none changes places, and limits against them: what nearly
  // equals a limit may equal it in f32. The others move each by itself, and then the other way: of two that
  // are nearly equal, each is the larger one once.
  constexpr uint64_t kMoves = 8;
  for (uint64_t sample = 0; sample < kMoves; ++sample) {
    Exchanged moved = before;
    if (sample < 2) moved.raised = sample == 0 ? -kMove : kMove;
    uint64_t element = 0;
    UniformDraws draws(RngKey{sample / 2, 0});
    const double sign = sample % 2 == 0 ? 1 : -1;
    const auto move = [&](std::vector<Doubles>& of_ranks) {
      for (Doubles& numbers : of_ranks) {
        for (double& number : numbers)
          number *= 1 + sign * kMove * (sample < 2 ? 1 : 2 * static_cast<double>(draws.at(element++)) - 1);
      }
    };
    move(moved.gradients);
    for (auto& [what, of_ranks] : moved.kept) move(of_ranks);
    run_written(choice, moved);
    const auto raise = [](Doubles& to, const Doubles& one, const Doubles& other) {
      for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], std::abs(one[i] - other[i]));
    };
    raise(either.sum, moved.sum, result.what.sum);
    for (auto& [what, of_ranks] : either.kept) {
      for (size_t r = 0; r < of_ranks.size(); ++r)
        raise(of_ranks[r], moved.kept.at(what)[r], result.what.kept.at(what)[r]);
    }
  }
  return result;
}

// What the written out methods call what is kept.
constexpr const char* kWhat[] = {"residual",       "velocity", "waiting", "power_right",
                                 "owner_residual", "momentum", "variance"};

}  // namespace

std::vector<std::string> kept_states(const Program& program) {
  std::vector<std::string> names;
  for (const State& state : program.states) {
    if (state.role == Role::kResidual) names.push_back(state.name);
  }
  return names;
}

int compressing_group(const Mesh& mesh, int rank) {
  int group = 0;
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    const Axis& axis = mesh.axes()[a];
    if (axis.name != replica_axis(mesh) && axis.name != kPipeAxis)
      group = group * axis.size + mesh.coordinate(rank, static_cast<int>(a));
  }
  return group;
}

int compressing_groups(const Mesh& mesh) {
  return compressing_group(mesh, mesh.ranks() - 1) + 1;
}

void note_parts(const Program& program, GradientParts& parts) {
  for (const State& state : program.states) {
    if (state.role == Role::kGradient && state.attrs.has("of") && !state.attrs.has("addend_of"))
      parts.emplace(state.name, state.part);
  }
}

States cut(const States& whole, const GradientParts& parts) {
  States result = whole;
  for (const auto& [name, part] : parts) {
    const auto found = whole.find(name);
    if (found == whole.end()) continue;
    std::vector<float>& own = result[name];
    own.clear();
    for_each_run(part, [&](int64_t from, int64_t, int64_t count) {
      own.insert(own.end(), found->second.begin() + from, found->second.begin() + from + count);
    });
  }
  return result;
}

namespace {

Shape shape_of(const StatePart& part) {
  Shape shape = part.whole;
  for (size_t dim = 0; dim < part.pieces.size(); ++dim) {
    int64_t extent = 0;
    for (const Part& piece : part.pieces[dim]) extent += piece.size;
    shape.set(static_cast<int>(dim), extent);
  }
  return shape;
}

// What one group of ranks makes of one step.
struct GroupStep {
  const Program& whole;
  const std::vector<ExchangeChoice>& choices;
  int64_t step;
  double unit;

  void add(const Compressing& group, Agreed& result) const;
};

}  // namespace

Agreed agreed_step(const Agreement& how, const Program& whole, int64_t step, double loss_scale,
                   const States& summed, const std::vector<Compressing>& groups) {
  Agreed result{summed, {}, {}};
  for (const auto& [name, values] : summed) result.left_bounds[name].assign(values.size(), 0);
  const std::vector<ExchangeChoice> choices = exchange_choices(how);
  const double unit = static_cast<double>(summed.at(std::string(kCountState))[0]) * loss_scale;
  for (const Compressing& group : groups) GroupStep{whole, choices, step, unit}.add(group, result);
  return result;
}

void GroupStep::add(const Compressing& group, Agreed& result) const {
  const auto& [parts, replicas] = group;
  for (const State& state : whole.states) {
    if (state.role != Role::kGradient || !state.attrs.has("of")) continue;
    const std::string parameter(state.attrs.text("of"));
    const StatePart& part = parts.at(state.name);
    const Shape shape = shape_of(part);
    const Value value{.name = parameter, .type = state.type, .role = Role::kParameter};
    const ExchangeChoice* choice = choice_for(choices, value, shape);
    if (!choice) continue;
    Exchanged x{parameter, shape, step, {}, {}, {}};
    double addends = 0;
    for (const OfReplica& replica : replicas) {
      Doubles& own = x.gradients.emplace_back();
      for (const float number : replica.left.at(state.name))
        own.push_back(static_cast<double>(number) / unit);
      addends += largest_of_all(own);
      for (const char* what : kWhat) {
        if (const auto kept = replica.kept_before.find(kept_name(what, parameter));
            kept != replica.kept_before.end())
          x.kept[what].emplace_back(kept->second.begin(), kept->second.end());
      }
    }
    const Written written = written_out(*choice, x);
    const double tolerance = tolerance_of(*choice),
                 bound = tolerance * (largest_of_all(written.what.sum) + addends);
    for_each_run(part, [&](int64_t to, int64_t from, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(from + i);
        result.left[state.name][to + i] = static_cast<float>(written.what.sum[at] * unit);
        result.left_bounds[state.name][to + i] = static_cast<float>((bound + written.either.sum[at]) * unit);
      }
    });
    for (const auto& [what, of_ranks] : written.what.kept) {
      for (size_t r = 0; r < of_ranks.size(); ++r) {
        const std::vector<float>& found = replicas[r].kept_after.at(kept_name(what, parameter));
        const double may =
            tolerance * (largest_of_all(of_ranks[r]) + largest_of_all(written.what.sum) + addends);
        for (size_t i = 0; i < found.size() && result.problem.empty(); ++i) {
          const double expected = of_ranks[r][i], all = may + written.either.kept.at(what)[r][i] + 1e-30;
          if (std::abs(static_cast<double>(found[i]) - expected) <= all) continue;
          result.problem = fmt::format(
              "step {}: {} of replica {} is {:.9g} at element {} where the method written out keeps {:.9g}; "
              "rounding explains {:.3g}",
              step, kept_name(what, parameter), r, found[i], i, expected, all);
        }
      }
    }
  }
}

}  // namespace trireme::parity

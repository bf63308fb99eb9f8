// Passes over all sizes and algorithms, from small vectors to large ones, until the time is up. No algorithm
// is timed twice before all were timed once: what disturbs the machine for a while then disturbs them alike.
// What disturbs only adds to a time, so the lower quartile counts. Ranks agree on every time before they act
// on it.
#include "trireme/comm/calibrate.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/engine/engine.h"
#include "trireme/comm/group.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

constexpr size_t kKi = 1024, kMi = kKi * kKi;
constexpr size_t kMostVisits = 40;         // of one algorithm at one size
constexpr int kBarrierVisits = 10;         // of the barrier's algorithms
constexpr double kDisturbed = 1.5;         // times as long as a longer vector
constexpr double kMostGrowth = 16;         // of the time from one size to the next, for an estimate
constexpr int kSecondLooks = 2;            // at what would take too long, before it is not tried
constexpr double kShareOfFirstPass = 0.6;  // of the time, after which larger vectors are not tried

struct Effort {
  // A small and a middling one first: with them α and β can be fitted, however slow the link.
  std::vector<size_t> sizes;
  std::vector<Collective> collectives;
  double seconds;          // in all
  double visit_seconds;    // of repetitions before the next algorithm has its turn
  double longest_seconds;  // of one operation
};

Effort effort_for(const CalibrationOptions& options, int ranks) {
  Effort effort;
  if (options.thoroughness == Thoroughness::probe) {
    effort = {{8, 64 * kKi, 4 * kKi, kMi}, {Collective::all_reduce}, 30e-3, 0.1e-3, 5e-3};
  } else {
    effort = {{8, 64 * kKi, 256, kKi, 4 * kKi, 16 * kKi},
              {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
               Collective::broadcast, Collective::all_to_all},
              12,
              2e-3,
              0.1};
    // Of many ranks the memory of longer ones would be too much.
    for (size_t bytes = 256 * kKi; bytes <= (ranks <= 4 ? 64 : 16) * kMi; bytes *= 4)
      effort.sizes.push_back(bytes);
  }
  if (options.seconds > 0) effort.seconds = options.seconds;
  if (options.collective) effort.collectives = {*options.collective};
  std::erase(effort.collectives, Collective::barrier);  // timed in any case
  return effort;
}

// The upper end of the first part of so many: of 2 the median, of 4 the lower quartile.
double quantile(std::vector<double> values, size_t parts) {
  const auto place = values.begin() + static_cast<ptrdiff_t>(values.size() / parts);
  std::ranges::nth_element(values, place);
  return *place;
}

struct Timed {
  Call call;
  std::vector<double> seconds = {};  // the median of each visit; each time is that of the slowest rank

  double typical() const { return quantile(seconds, 4); }
};

// All algorithms of one collective at one size.
struct SizeGroup {
  size_t bytes;
  std::vector<Timed> algorithms = {};
};

using Wanted = std::function<bool(const Timed&)>;

// Those of a group that may be the fastest. The more often one was timed, the less doubt is left.
Wanted contenders(const SizeGroup& group) {
  const double fastest = std::ranges::min(group.algorithms, {}, &Timed::typical).typical();
  return [fastest](const Timed& timed) {
    return timed.seconds.size() < kMostVisits &&
           timed.typical() <= (1 + 4.0 / static_cast<double>(timed.seconds.size())) * fastest;
  };
}

bool every_one(const Timed&) {
  return true;
}

class Calibration {
 public:
  Calibration(Context& context, const CalibrationOptions& options);
  LinkTable run();

 private:
  void run_call(const Call& call, void* data);
  double once(const Call& call);
  SizeGroup group_of(Collective collective, size_t bytes, const std::vector<Algorithm>& algorithms);
  std::vector<Algorithm> candidates(Collective collective) const;
  SizeGroup settle_barrier();
  // Times each that is wanted in turn. Returns whether there was one.
  bool visit(SizeGroup& group, const Wanted& wanted);
  std::vector<SizeGroup> first_pass();

  Context& context_;
  Effort effort_;
  MemoryKind memory_kind_;
  std::vector<int> members_;
  Engine engine_;
  Algorithm barrier_ = Algorithm::automatic;
  std::unique_ptr<Memory> buffer_;
  std::unique_ptr<Memory> output_;  // of an all_to_all, which is not in place; null where none is timed
  Clock::time_point begin_ = Clock::now();
  double now_ = 0;  // seconds since then, as all ranks have agreed
};

Calibration::Calibration(Context& context, const CalibrationOptions& options)
    : context_(context),
      effort_(effort_for(options, context.ranks())),
      memory_kind_(options.memory),
      members_(all_ranks(context.ranks())),
      engine_(context.transport(), context.number_group("links", members_), members_,
              {.timeout_seconds = context.timeout_seconds(),
               .hosts = context.hosts(),
               .recorder = &context.recorder(),
               .name = "links"}) {
  const size_t most = effort_.sizes.back();
  const auto zeros = [&] {
    auto memory =
        memory_kind_ == MemoryKind::transport ? context.transport().allocate(most) : heap_memory(most);
    std::memset(memory->bytes().data(), 0, memory->bytes().size());
    return memory;
  };
  buffer_ = zeros();
  if (std::ranges::count(effort_.collectives, Collective::all_to_all) > 0) output_ = zeros();
}

void Calibration::run_call(const Call& call, void* data) {
  void* const output = call.collective == Collective::all_to_all ? output_->bytes().data() : nullptr;
  Operation& operation = engine_.collective(call, data, {}, output);
  engine_.wait(operation);
  engine_.release(operation);
}

double Calibration::once(const Call& call) {
  run_call({.collective = Collective::barrier, .algorithm = barrier_}, nullptr);
  const auto begin = Clock::now();
  run_call(call, buffer_->bytes().data());
  return seconds_since(begin);
}

SizeGroup Calibration::group_of(Collective collective, size_t bytes,
                                const std::vector<Algorithm>& algorithms) {
  SizeGroup group{bytes};
  auto count = static_cast<int64_t>(bytes / sizeof(float));
  if (collective == Collective::all_to_all) {
    count -= count % context_.ranks();  // of equal parts
    if (count == 0) return group;
  }
  for (const Algorithm algorithm : algorithms) {
    const Call call{.collective = collective, .algorithm = algorithm, .dtype = DType::f32, .count = count};
    if (algorithm != Algorithm::native || engine_.offers_native(call)) group.algorithms.push_back({call});
  }
  return group;
}

bool Calibration::visit(SizeGroup& group, const Wanted& wanted) {
  std::vector<Timed*> turns;
  std::vector<double> seconds;
  std::vector<int> counts;
  for (Timed& timed : group.algorithms) {
    if (!wanted(timed)) continue;
    const int count = timed.seconds.empty()
                          ? 1
                          : static_cast<int>(std::clamp(effort_.visit_seconds / timed.typical(), 3.0, 20.0));
    once(timed.call);  // its recipe is made, and its lines of the buffer are in the caches
    for (int i = 0; i < count; ++i) seconds.push_back(once(timed.call));
    turns.push_back(&timed);
    counts.push_back(count);
  }
  if (turns.empty()) return false;
  seconds.push_back(seconds_since(begin_));
  run_call({.collective = Collective::all_reduce,
            .algorithm = Algorithm::naive,
            .dtype = DType::f64,
            .op = ReduceOp::max,
            .count = static_cast<int64_t>(seconds.size())},
           seconds.data());
  auto next = seconds.begin();
  for (size_t i = 0; i < turns.size(); ++i) {
    turns[i]->seconds.push_back(quantile({next, next + counts[i]}, 2));
    next += counts[i];
  }
  now_ = seconds.back();
  return true;
}

std::vector<Algorithm> Calibration::candidates(Collective collective) const {
  std::vector<Algorithm> algorithms = algorithms_for(collective, context_.hosts());
  algorithms.push_back(Algorithm::native);
  return algorithms;
}

// The barrier before an operation changes what the operation takes, so it is the one that will be chosen.
SizeGroup Calibration::settle_barrier() {
  SizeGroup group = group_of(Collective::barrier, 0, candidates(Collective::barrier));
  for (int i = 0; i < kBarrierVisits; ++i) visit(group, every_one);
  barrier_ = std::ranges::min_element(group.algorithms, {}, &Timed::typical)->call.algorithm;
  return group;
}

// Sizes in the outer loop: where the time is up, all collectives have been timed at the same ones.
std::vector<SizeGroup> Calibration::first_pass() {
  std::map<Collective, std::vector<Algorithm>> left;
  for (const Collective collective : effort_.collectives) left[collective] = candidates(collective);
  std::vector<SizeGroup> groups;
  const double first_pass_seconds = kShareOfFirstPass * effort_.seconds;
  for (size_t s = 0; s < effort_.sizes.size(); ++s) {
    if (s > 1 && now_ > first_pass_seconds) break;
    const size_t bytes = effort_.sizes[s], next = effort_.sizes[std::min(s + 1, effort_.sizes.size() - 1)];
    const double growth =
        std::clamp(static_cast<double>(next) / static_cast<double>(bytes), 1.0, kMostGrowth);
    for (auto& [collective, algorithms] : left) {
      if (groups.size() > left.size() && now_ > effort_.seconds) return groups;
      SizeGroup group = group_of(collective, bytes, algorithms);
      if (!visit(group, every_one)) continue;
      const Wanted too_long = [&](const Timed& timed) {
        return s > 0 && growth * timed.typical() > effort_.longest_seconds;
      };
      for (int again = 0; again < kSecondLooks && now_ < first_pass_seconds; ++again) visit(group, too_long);
      for (const Timed& timed : group.algorithms) {
        if (too_long(timed)) std::erase(algorithms, timed.call.algorithm);
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

LinkTable Calibration::run() {
  const SizeGroup barriers = settle_barrier();
  std::vector<SizeGroup> groups = first_pass();
  for (bool any = true; any && now_ < effort_.seconds;) {
    any = false;
    for (SizeGroup& group : groups) any |= now_ < effort_.seconds && visit(group, contenders(group));
  }
  groups.push_back(barriers);
  LinkTable table;
  table.transport = context_.transport().name();
  table.memory = memory_kind_;
  table.ranks = context_.ranks();
  std::map<std::pair<Collective, Algorithm>, Curve> points;
  for (const SizeGroup& group : groups) {
    for (const Timed& timed : group.algorithms)
      points[{timed.call.collective, timed.call.algorithm}].push_back({group.bytes, timed.typical()});
  }
  for (auto& [key, list] : points) {
    std::ranges::sort(list, {}, &TimedPoint::bytes);
    // A longer vector takes about as long or longer: a shorter one that took much more was disturbed.
    for (size_t i = list.size() - 1; i > 0; --i) {
      if (list[i - 1].seconds > kDisturbed * list[i].seconds) list[i - 1].seconds = list[i].seconds;
    }
    table.timed[key.first][key.second] = std::move(list);
  }
  table.link = fit_link(table, context_.hosts());
  return table;
}

}  // namespace

LinkTable measure_links(Context& context, const CalibrationOptions& options) {
  if (context.ranks() < 2)
    throw_error("links are measured between ranks, and there is one alone; -n RANKS starts some");
  return Calibration(context, options).run();
}

LinkTable read_links(Context& context, const std::string& path, MemoryKind memory) {
  std::string text, problem;
  if (context.rank() == 0) {
    try {
      const std::vector<LinkTable> tables = read_link_tables(path);
      const LinkTable* table = find_link_table(tables, context.transport().name(), context.ranks(), memory);
      if (table == nullptr) {
        throw_error(
            "{}: nothing was measured of {} with {} memory; measure it with: trireme bench collectives "
            "-n {} --transport {} --calibrate {}",
            path, context.transport().name(), name(memory), context.ranks(), context.transport().name(),
            path);
      }
      text = to_json({table, 1});
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  // All learn of it, so that all end with the reason rather than by the death of rank 0.
  Group world = context.world();
  problem = broadcast_text(problem, world);
  if (!problem.empty()) throw Error(problem);
  return parse_link_tables(broadcast_text(text, world), path).front();
}

}  // namespace trireme::comm

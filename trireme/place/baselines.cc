#include "trireme/place/baselines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "trireme/base/error.h"

namespace trireme::place {
namespace {

constexpr double kNothing = std::numeric_limits<double>::infinity();
constexpr size_t kBeamWidth = 10;

// Dollars per hour of the share of a worker that an op takes, where that is least.
double reference_cost(const Workflow& workflow, const Variant& variant, double rate) {
  double least = kNothing;
  for (size_t w = 0; w < variant.seconds.size(); ++w) {
    if (variant.seconds[w])
      least = std::min(least, workflow.workers[w].price_per_hour * *variant.seconds[w] * rate);
  }
  return least;
}

// Ops from the last one back have variants; of the others it is known what accuracy they need.
struct PartialChoice {
  Variants variants;
  std::vector<double> needed;
  double cost = 0;
};

PartialChoice with_variant(const Op& op, int o, int v, const AccuracyPoint& point, double cost,
                           PartialChoice choice) {
  choice.variants[o] = v;
  choice.cost += cost;
  size_t next = 0;
  for (const Op::Input& input : op.inputs) {
    if (input.is_source) continue;
    double& needed = choice.needed[input.index];
    needed = std::max(needed, point.inputs[next++]);
  }
  return choice;
}

bool is_cheaper(const PartialChoice& a, const PartialChoice& b) {
  if (a.cost != b.cost) return a.cost < b.cost;
  const auto sum = [](const PartialChoice& c) {
    return std::accumulate(c.needed.begin(), c.needed.end(), 0.0);
  };
  return sum(a) < sum(b);
}

// Workers of the ops so far, and what they and their messages cost an hour.
struct GreedyState {
  std::vector<std::vector<int>> rented;
  std::vector<int> free;   // by class
  std::vector<int> tiers;  // by op, the highest that makes outputs of it
  double cost = 0;
};

class GreedyWorkers {
 public:
  GreedyWorkers(const Workflow& workflow, const Variants& variants)
      : workflow_(workflow), variants_(variants), rates_(required_rates(workflow)) {}

  std::optional<std::vector<std::vector<int>>> find() const {
    GreedyState start;
    for (const WorkerClass& worker : workflow_.workers) start.free.push_back(worker.count);
    std::vector<GreedyState> states = {start};
    for (size_t o = 0; o < workflow_.ops.size(); ++o) {
      std::vector<GreedyState> next;
      for (const GreedyState& state : states) {
        const int lowest = lowest_tier(state, workflow_.ops[o]);
        for (int highest = lowest; highest < static_cast<int>(workflow_.tiers.size()); ++highest) {
          if (auto extended = with_op(state, o, lowest, highest)) next.push_back(*std::move(extended));
        }
      }
      std::ranges::stable_sort(next, {}, &GreedyState::cost);
      if (next.size() > kBeamWidth) next.resize(kBeamWidth);
      states = std::move(next);
    }
    if (states.empty()) return std::nullopt;
    return states.front().rented;
  }

 private:
  // Outputs of the inputs' tiers can come there.
  int lowest_tier(const GreedyState& state, const Op& op) const {
    int lowest = 0;
    for (const Op::Input& input : op.inputs)
      lowest =
          std::max(lowest, input.is_source ? workflow_.sources[input.index].tier : state.tiers[input.index]);
    return lowest;
  }

  // Dollars per hour of the messages of one input a second that comes to `tier`.
  double messages(const GreedyState& state, const Op& op, int tier) const {
    double price = 0;
    for (const Op::Input& input : op.inputs) {
      const int i = input.index, from = input.is_source ? workflow_.sources[i].tier : state.tiers[i];
      const double kilobytes = input.is_source ? workflow_.sources[i].kilobytes
                                               : workflow_.ops[i].variants[variants_[i]].kilobytes;
      price += workflow_.price_of_messages(from, tier, kilobytes).value_or(kNothing);
    }
    return price;
  }

  // The cheapest worker that takes what is left, else the one whose inputs are cheapest, until nothing is
  // left.
  std::optional<GreedyState> with_op(GreedyState state, size_t o, int lowest, int highest) const {
    const Op& op = workflow_.ops[o];
    const Variant& variant = op.variants[variants_[o]];
    std::vector<int>& rented = state.rented.emplace_back(workflow_.workers.size());
    double left = rates_[o];
    int tier = lowest;
    while (left > 0) {
      int best = -1;
      bool best_takes_all = false;
      double best_price = kNothing;
      for (size_t w = 0; w < rented.size(); ++w) {
        const WorkerClass& worker = workflow_.workers[w];
        if (state.free[w] == 0 || !variant.seconds[w] || worker.tier < lowest || worker.tier > highest)
          continue;
        const double rate = workflow_.load / *variant.seconds[w];
        const bool takes_all = rate >= left;
        const double input = messages(state, op, worker.tier);
        const double price =
            takes_all ? worker.price_per_hour + left * input : worker.price_per_hour / rate + input;
        if (price < kNothing && (takes_all != best_takes_all ? takes_all : price < best_price)) {
          best = static_cast<int>(w);
          best_takes_all = takes_all;
          best_price = price;
        }
      }
      if (best < 0) return std::nullopt;
      const WorkerClass& worker = workflow_.workers[best];
      const double taken = std::min(left, workflow_.load / *variant.seconds[best]);
      state.cost += worker.price_per_hour + taken * messages(state, op, worker.tier);
      --state.free[best];
      ++rented[best];
      tier = std::max(tier, worker.tier);
      left -= taken;
    }
    state.tiers.push_back(tier);
    return state;
  }

  const Workflow& workflow_;
  const Variants& variants_;
  const std::vector<double> rates_;
};

}  // namespace

std::vector<Variants> beam_choices(const Workflow& workflow, size_t width) {
  const std::vector<double> rates = required_rates(workflow);
  const size_t ops = workflow.ops.size();
  PartialChoice start{Variants(ops, kAnyVariant), std::vector<double>(ops, 0), 0};
  start.needed.back() = workflow.accuracy;
  std::vector<PartialChoice> beam = {start};
  for (int o = static_cast<int>(ops) - 1; o >= 0; --o) {
    const Op& op = workflow.ops[o];
    std::vector<PartialChoice> next;
    for (const PartialChoice& choice : beam) {
      for (int v = 0; v < static_cast<int>(op.variants.size()); ++v) {
        const double cost = reference_cost(workflow, op.variants[v], rates[o]);
        for (const AccuracyPoint& point : op.variants[v].points) {
          if (point.output >= choice.needed[o]) next.push_back(with_variant(op, o, v, point, cost, choice));
        }
      }
    }
    std::ranges::stable_sort(next, is_cheaper);
    std::set<std::pair<Variants, std::vector<double>>> seen;
    beam.clear();
    for (PartialChoice& choice : next) {
      if (beam.size() == width) break;
      if (seen.emplace(choice.variants, choice.needed).second) beam.push_back(std::move(choice));
    }
  }
  std::vector<Variants> choices;
  for (PartialChoice& choice : beam) {
    if (std::ranges::find(choices, choice.variants) == choices.end())
      choices.push_back(std::move(choice.variants));
  }
  return choices;
}

std::optional<std::vector<std::vector<int>>> greedy_workers(const Workflow& workflow,
                                                            const Variants& variants) {
  return GreedyWorkers(workflow, variants).find();
}

namespace {

template <typename Place>
Baseline baseline(std::string name, const Place& place) {
  Baseline result{.name = std::move(name), .placement = {}, .why_not = {}};
  try {
    result.placement = place();
  } catch (const Error& error) {
    result.why_not = error.what();
  }
  return result;
}

Placement by_beam_and_greed(const Workflow& workflow, double seconds) {
  std::optional<Placement> cheapest;
  for (const Variants& variants : beam_choices(workflow, kBeamWidth)) {
    const auto rented = greedy_workers(workflow, variants);
    if (!rented) continue;
    const Allowed allowed{.variants = variants, .tiers = {}, .rented = *rented};
    const Placement placement = best_placement(workflow, allowed, seconds).placement;
    if (!cheapest || cost_of(workflow, placement).total() < cost_of(workflow, *cheapest).total())
      cheapest = placement;
  }
  if (!cheapest) throw_error("workers run out");
  return *cheapest;
}

// By op the variant whose best output is best.
Variants most_accurate(const Workflow& workflow) {
  Variants variants;
  for (const Op& op : workflow.ops) {
    const auto best_output = [](const Variant& variant) {
      return std::ranges::max(variant.points, {}, &AccuracyPoint::output).output;
    };
    variants.push_back(
        static_cast<int>(std::ranges::max_element(op.variants, {}, best_output) - op.variants.begin()));
  }
  return variants;
}

}  // namespace

std::vector<Baseline> baselines(const Workflow& workflow, double seconds) {
  const auto in_tier = [&](size_t tier) {
    Allowed allowed;
    allowed.tiers.assign(workflow.tiers.size(), false);
    allowed.tiers[tier] = true;
    return best_placement(workflow, allowed, seconds).placement;
  };
  std::vector<Baseline> result;
  if (!workflow.shared) {
    result.push_back(
        baseline("beam search, greedy workers", [&] { return by_beam_and_greed(workflow, seconds); }));
  }
  result.push_back(baseline("most accurate variants", [&] {
    return best_placement(workflow, {.variants = most_accurate(workflow), .tiers = {}, .rented = {}}, seconds)
        .placement;
  }));
  if (workflow.tiers.size() > 1) {
    result.push_back(
        baseline("all in " + workflow.tiers.back(), [&] { return in_tier(workflow.tiers.size() - 1); }));
    result.push_back(baseline("all in " + workflow.tiers.front(), [&] { return in_tier(0); }));
  }
  return result;
}

}  // namespace trireme::place

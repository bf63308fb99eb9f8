#include "trireme/place/placement.h"

#include <cmath>
#include <limits>

#include "trireme/base/error.h"

namespace trireme::place {
namespace {

constexpr double kRounding = 1e-6;  // of a rate
constexpr double kUnrunnable = std::numeric_limits<double>::infinity();

const Variant& variant_of(const Workflow& workflow, const Placement& placement, int op) {
  return workflow.ops[op].variants[placement.variants[op]];
}

bool agree(double a, double b) {
  return std::abs(a - b) <= kRounding * std::max(1.0, std::abs(b));
}

void check_workers(const Workflow& workflow, const Placement& placement) {
  for (size_t w = 0; w < workflow.workers.size(); ++w) {
    int used = 0;
    for (size_t group = 0; group < placement.rented.size(); ++group) {
      used += placement.rented[group][w];
      const double load = load_of(workflow, placement, static_cast<int>(group), static_cast<int>(w));
      if (load > workflow.load + kRounding)
        throw_error("workers '{}' compute {:.4g} of the time where {} is allowed", workflow.workers[w].name,
                    load, workflow.load);
    }
    if (used > workflow.workers[w].count)
      throw_error("{} workers '{}' are rented, and there are {}", used, workflow.workers[w].name,
                  workflow.workers[w].count);
  }
}

// What a tier sends along an input, and what a tier takes.
void check_traffic(const Workflow& workflow, const Placement& placement, const std::vector<double>& rates,
                   int o, int i) {
  const Op::Input& input = workflow.ops[o].inputs[i];
  std::vector<double> sent(workflow.tiers.size()), taken(workflow.tiers.size()), made(workflow.tiers.size()),
      needed(workflow.tiers.size());
  for (const Traffic& one : placement.traffic) {
    if (one.op != o || one.input != i) continue;
    if (!workflow.price_of_messages(one.from, one.to, 0))
      throw_error("messages to op '{}' go from tier '{}' to '{}', where no link leads", workflow.ops[o].name,
                  workflow.tiers[one.from], workflow.tiers[one.to]);
    sent[one.from] += one.rate;
    taken[one.to] += one.rate;
  }
  if (input.is_source) made[workflow.sources[input.index].tier] = rates[o];
  for (const Share& share : placement.shares) {
    const int tier = workflow.workers[share.worker].tier;
    if (share.op == o) needed[tier] += share.rate;
    if (!input.is_source && share.op == input.index) made[tier] += share.rate * rates[o] / rates[input.index];
  }
  for (size_t t = 0; t < workflow.tiers.size(); ++t) {
    if (!agree(sent[t], made[t]) || !agree(taken[t], needed[t]))
      throw_error(
          "input {} of op '{}' in tier '{}': {} messages a second are made and {} sent, {} needed and {} come",
          i + 1, workflow.ops[o].name, workflow.tiers[t], made[t], sent[t], needed[t], taken[t]);
  }
}

}  // namespace

Cost cost_of(const Workflow& workflow, const Placement& placement) {
  Cost cost;
  for (const std::vector<int>& group : placement.rented) {
    for (size_t w = 0; w < group.size(); ++w) cost.workers += group[w] * workflow.workers[w].price_per_hour;
  }
  for (const Traffic& one : placement.traffic) {
    const Op::Input& input = workflow.ops[one.op].inputs[one.input];
    const double kilobytes = input.is_source ? workflow.sources[input.index].kilobytes
                                             : variant_of(workflow, placement, input.index).kilobytes;
    cost.network += one.rate * workflow.price_of_messages(one.from, one.to, kilobytes).value_or(0);
  }
  return cost;
}

double load_of(const Workflow& workflow, const Placement& placement, int group, int worker) {
  double busy = 0;
  for (const Share& share : placement.shares) {
    if (share.worker == worker && (workflow.shared || share.op == group))
      busy += share.rate * variant_of(workflow, placement, share.op).seconds[worker].value_or(kUnrunnable);
  }
  const int rented = placement.rented[group][worker];
  return rented == 0 ? (busy > kRounding ? kUnrunnable : 0) : busy / rented;
}

void check(const Workflow& workflow, const Placement& placement) {
  const std::vector<double> rates = required_rates(workflow);
  check_workers(workflow, placement);
  for (size_t o = 0; o < workflow.ops.size(); ++o) {
    double taken = 0;
    for (const Share& share : placement.shares) taken += share.op == static_cast<int>(o) ? share.rate : 0;
    if (!agree(taken, rates[o]))
      throw_error("op '{}' takes {} inputs a second where {} come", workflow.ops[o].name, taken, rates[o]);
    for (size_t i = 0; i < workflow.ops[o].inputs.size(); ++i)
      check_traffic(workflow, placement, rates, static_cast<int>(o), static_cast<int>(i));
  }
  if (const double accuracy = accuracy_of(workflow, placement.variants); accuracy < workflow.accuracy)
    throw_error("answers have accuracy {} where {} is asked", accuracy, workflow.accuracy);
}

}  // namespace trireme::place

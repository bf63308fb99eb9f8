#include "trireme/place/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "trireme/base/statistics.h"
#include "trireme/base/text.h"

namespace trireme::place {
namespace {

int group_of(const Workflow& workflow, int op) {
  return workflow.shared ? 0 : op;
}

std::string workers_of(const Workflow& workflow, const Placement& placement, int op) {
  std::vector<std::string> parts;
  for (const Share& share : placement.shares) {
    if (share.op != op) continue;
    const int count = placement.rented[group_of(workflow, op)][share.worker];
    const double load = load_of(workflow, placement, group_of(workflow, op), share.worker);
    const std::string many = count == 1 ? "" : fmt::format("{} × ", count);
    parts.push_back(fmt::format("{}{} {:.4g}/s ({:.0f} %)", many, workflow.workers[share.worker].name,
                                share.rate, 100 * load));
  }
  return join(parts, ", ");
}

std::string variant_names(const Workflow& workflow, const Variants& variants) {
  std::vector<std::string> names;
  for (size_t o = 0; o < variants.size(); ++o) names.push_back(workflow.ops[o].variants[variants[o]].name);
  return join(names, ", ");
}

}  // namespace

std::string to_text(const Workflow& workflow, const Placement& placement) {
  const std::vector<double> rates = required_rates(workflow);
  std::string text = fmt::format("{:<12} {:<14} {:>9}  {}\n", "op", "variant", "inputs/s",
                                 "workers, inputs of each class, load");
  for (size_t o = 0; o < workflow.ops.size(); ++o) {
    const int op = static_cast<int>(o);
    text += fmt::format("{:<12} {:<14} {:>9.4g}  {}\n", workflow.ops[o].name,
                        workflow.ops[o].variants[placement.variants[o]].name, rates[o],
                        workers_of(workflow, placement, op));
  }
  const Cost cost = cost_of(workflow, placement);
  text += fmt::format("\naccuracy {:.4g}, {:.4g} asked\n", accuracy_of(workflow, placement.variants),
                      workflow.accuracy);
  text += fmt::format("cost     {:.3f} $/h: workers {:.3f}, network {:.3f}\n", cost.total(), cost.workers,
                      cost.network);
  return text;
}

std::string to_text(const Workflow& workflow, const BestPlacement& best) {
  std::string text = to_text(workflow, best.placement);
  text +=
      best.proven
          ? "proven   no placement is cheaper\n"
          : fmt::format(
                "bound    no placement costs less than {:.3f} $/h, {:.2f} % below; --seconds allows more time\n",
                best.bound, 100 * (1 - best.bound / cost_of(workflow, best.placement).total()));
  return text;
}

nlohmann::ordered_json to_json(const Workflow& workflow, const BestPlacement& best) {
  using nlohmann::ordered_json;
  const Placement& placement = best.placement;
  const Cost cost = cost_of(workflow, placement);
  ordered_json json = {
      {"accuracy", accuracy_of(workflow, placement.variants)},
      {"dollars_per_hour", {{"workers", cost.workers}, {"network", cost.network}, {"total", cost.total()}}},
      {"bound", best.bound},
      {"proven", best.proven},
      {"ops", ordered_json::array()},
      {"messages", ordered_json::array()}};
  for (size_t o = 0; o < workflow.ops.size(); ++o) {
    const int op = static_cast<int>(o), group = group_of(workflow, op);
    ordered_json workers = ordered_json::array();
    for (const Share& share : placement.shares) {
      if (share.op != op) continue;
      workers.push_back({{"worker", workflow.workers[share.worker].name},
                         {"count", placement.rented[group][share.worker]},
                         {"inputs_per_second", share.rate},
                         {"load", load_of(workflow, placement, group, share.worker)}});
    }
    json["ops"].push_back({{"op", workflow.ops[o].name},
                           {"variant", workflow.ops[o].variants[placement.variants[o]].name},
                           {"workers", workers}});
  }
  for (const Traffic& one : placement.traffic) {
    const Op::Input& input = workflow.ops[one.op].inputs[one.input];
    json["messages"].push_back(
        {{"from", input.is_source ? workflow.sources[input.index].name : workflow.ops[input.index].name},
         {"to", workflow.ops[one.op].name},
         {"from_tier", workflow.tiers[one.from]},
         {"to_tier", workflow.tiers[one.to]},
         {"messages_per_second", one.rate}});
  }
  return json;
}

std::string to_text(const Workflow& workflow, const std::vector<Baseline>& baselines,
                    const BestPlacement& best) {
  const double least = cost_of(workflow, best.placement).total();
  std::string text = fmt::format("{:<30} {:>9} {:>9}  {}\n", "instead", "$/h", "more", "variants");
  for (const Baseline& baseline : baselines) {
    if (!baseline.placement) {
      text += fmt::format("{:<30} not possible: {}\n", baseline.name, baseline.why_not);
      continue;
    }
    const double cost = cost_of(workflow, *baseline.placement).total();
    text += fmt::format("{:<30} {:>9.3f} {:>+8.1f}%  {}\n", baseline.name, cost, 100 * (cost / least - 1),
                        variant_names(workflow, baseline.placement->variants));
  }
  return text;
}

std::vector<AccuracyPrice> accuracy_prices(const Workflow& given, double seconds) {
  Workflow workflow = given;
  workflow.accuracy = 0;
  const double highest = accuracy_of(workflow, Variants(workflow.ops.size(), kAnyVariant));
  std::vector<AccuracyPrice> prices;
  while (workflow.accuracy <= highest) {
    AccuracyPrice price;
    try {
      price.best = best_placement(workflow, {}, seconds);
    } catch (const TooFewWorkers&) {
      if (prices.empty()) throw;
      break;  // the workers are too few for more accurate variants
    }
    price.accuracy = accuracy_of(workflow, price.best.placement.variants);
    price.cost = cost_of(workflow, price.best.placement).total();
    workflow.accuracy = std::nextafter(price.accuracy, highest + 1);
    // At the same cost the more accurate one is meant.
    if (!prices.empty() && prices.back().cost >= price.cost * (1 - 1e-9)) prices.pop_back();
    prices.push_back(std::move(price));
  }
  return prices;
}

std::string to_text(const Workflow& workflow, const std::vector<AccuracyPrice>& prices) {
  std::string text = fmt::format("{:>8} {:>9}  {}\n", "accuracy", "$/h", "variants");
  for (const AccuracyPrice& price : prices) {
    text += fmt::format("{:>8.4g} {:>9.3f}  {}{}\n", price.accuracy, price.cost,
                        variant_names(workflow, price.best.placement.variants),
                        price.best.proven ? "" : " (not proven)");
  }
  return text;
}

std::string to_text(const PlacedFlow& placed, const QueueReport& report) {
  const auto requests = static_cast<double>(report.latency.size());
  const double mean = std::accumulate(report.latency.begin(), report.latency.end(), 0.0) / requests;
  const auto milliseconds = [&](double share) { return 1e3 * quantile_of(report.latency, share); };
  std::string text = fmt::format("{} requests in {:.4g} s, {:.4g} a second\n", requests, report.seconds,
                                 requests / report.seconds);
  text += fmt::format("latency: mean {:.1f} ms, p50 {:.1f}, p90 {:.1f}, p99 {:.1f}, longest {:.1f}\n",
                      1e3 * mean, milliseconds(0.5), milliseconds(0.9), milliseconds(0.99), milliseconds(1));
  std::vector<std::string> busy;
  for (size_t s = 0; s < placed.servers.size(); ++s)
    busy.push_back(fmt::format("{} {:.0f} %", placed.servers[s], 100 * report.busy[s]));
  return text + "busy: " + join(busy, ", ") + "\n";
}

}  // namespace trireme::place

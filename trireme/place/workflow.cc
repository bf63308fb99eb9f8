#include "trireme/place/workflow.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"

namespace trireme::place {
namespace {

constexpr double kKilobytesPerGigabyte = 1024.0 * 1024.0, kSecondsPerHour = 3600;

template <typename Item>
void check_names(const std::vector<Item>& items, std::string_view what, const std::string& origin) {
  std::set<std::string> seen;
  for (const Item& item : items) {
    if (item.name.empty()) throw_error("{}: a {} has no name", origin, what);
    if (!seen.insert(item.name).second)
      throw_error("{}: there is a second {} '{}'; give each its own name", origin, what, item.name);
  }
}

int op_inputs(const Op& op) {
  return static_cast<int>(std::ranges::count(op.inputs, false, &Op::Input::is_source));
}

void check_op(const Workflow& workflow, const Op& op, const std::string& origin) {
  if (op.inputs.empty()) throw_error("{}: op '{}' has no inputs; name a source or an op", origin, op.name);
  if (op.variants.empty()) throw_error("{}: op '{}' has no [[op.variant]]", origin, op.name);
  check_names(op.variants, fmt::format("variant of op '{}'", op.name), origin);
  for (const Op::Input& input : op.inputs) {
    if (!(input.ratio > 0))
      throw_error("{}: a ratio of op '{}' is {}; more than 0 expected", origin, op.name, input.ratio);
  }
  for (const Variant& variant : op.variants) {
    if (std::ranges::none_of(variant.seconds, [](const auto& one) { return one.has_value(); }))
      throw_error("{}: variant '{}' of op '{}' runs on no worker; give it milliseconds", origin, variant.name,
                  op.name);
    for (size_t w = 0; w < variant.seconds.size(); ++w) {
      if (variant.seconds[w] && !(*variant.seconds[w] > 0))
        throw_error("{}: variant '{}' of op '{}' takes {} s on '{}'; more than 0 expected", origin,
                    variant.name, op.name, *variant.seconds[w], workflow.workers[w].name);
    }
    if (variant.points.empty())
      throw_error("{}: variant '{}' of op '{}' has no accuracy; measure it", origin, variant.name, op.name);
    for (const AccuracyPoint& point : variant.points) {
      if (static_cast<int>(point.inputs.size()) != op_inputs(op))
        throw_error(
            "{}: an accuracy of variant '{}' of op '{}' has {} numbers; one for each of {} inputs that are ops, and its own, expected",
            origin, variant.name, op.name, point.inputs.size() + 1, op_inputs(op));
    }
  }
}

double output_accuracy(const Variant& variant, const std::vector<double>& inputs) {
  double best = 0;
  for (const AccuracyPoint& point : variant.points) {
    const bool reached =
        std::ranges::equal(point.inputs, inputs, [](double needed, double had) { return had >= needed; });
    if (reached) best = std::max(best, point.output);
  }
  return best;
}

}  // namespace

std::optional<double> Workflow::price_of_messages(int from, int to, double kilobytes) const {
  if (from == to) return 0;
  const auto found =
      std::ranges::find_if(links, [&](const TierLink& link) { return link.from == from && link.to == to; });
  if (found == links.end()) return std::nullopt;
  return found->price_per_gigabyte / kKilobytesPerGigabyte * kilobytes * kSecondsPerHour;
}

void check(const Workflow& workflow, const std::string& origin) {
  if (workflow.ops.empty()) throw_error("{}: there is no [[op]]", origin);
  if (workflow.sources.empty()) throw_error("{}: there is no [[source]]", origin);
  if (workflow.workers.empty()) throw_error("{}: there is no [[worker]]", origin);
  check_names(workflow.workers, "worker", origin);
  check_names(workflow.sources, "source", origin);
  check_names(workflow.ops, "op", origin);
  if (!(workflow.load > 0 && workflow.load <= 1))
    throw_error("{}: load is {}; more than 0 and at most 1 expected", origin, workflow.load);
  for (const WorkerClass& worker : workflow.workers) {
    if (worker.count < 1) throw_error("{}: worker '{}' has count 0; leave it out", origin, worker.name);
  }
  for (const Source& source : workflow.sources) {
    if (!(source.rate > 0))
      throw_error("{}: source '{}' has rate {}; more than 0 expected", origin, source.name, source.rate);
  }
  std::vector<bool> used(workflow.ops.size());
  used.back() = true;
  for (const Op& op : workflow.ops) {
    for (const Op::Input& input : op.inputs) {
      if (!input.is_source) used[input.index] = true;
    }
  }
  if (const auto alone = std::ranges::find(used, false); alone != used.end())
    throw_error("{}: nothing takes the outputs of op '{}', and it is not the last one", origin,
                workflow.ops[alone - used.begin()].name);
  for (const Op& op : workflow.ops) check_op(workflow, op, origin);
}

std::vector<double> required_rates(const Workflow& workflow) {
  std::vector<double> rates;
  for (const Op& op : workflow.ops) {
    double least = 0;
    for (const Op::Input& input : op.inputs) {
      const double rate =
          input.ratio * (input.is_source ? workflow.sources[input.index].rate : rates[input.index]);
      least = &input == op.inputs.data() ? rate : std::min(least, rate);
    }
    rates.push_back(least);
  }
  return rates;
}

double accuracy_of(const Workflow& workflow, const Variants& variants) {
  std::vector<double> accuracy;
  for (size_t o = 0; o < workflow.ops.size(); ++o) {
    const Op& op = workflow.ops[o];
    std::vector<double> inputs;
    for (const Op::Input& input : op.inputs) {
      if (!input.is_source) inputs.push_back(accuracy[input.index]);
    }
    // More accurate inputs never make an output worse, so that the best of each op is the best of all.
    double best = 0;
    for (size_t v = 0; v < op.variants.size(); ++v) {
      if (variants[o] == kAnyVariant || variants[o] == static_cast<int>(v))
        best = std::max(best, output_accuracy(op.variants[v], inputs));
    }
    accuracy.push_back(best);
  }
  return accuracy.back();
}

}  // namespace trireme::place

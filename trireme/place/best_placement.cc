// Accuracy is no sum, so the program does not know it. It is solved without; if its variants are not accurate
// enough, a row forbids those of them that alone make the goal impossible, and it is solved again.
#include "trireme/place/best_placement.h"

#include <chrono>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/place/integer_program.h"

namespace trireme::place {
namespace {

constexpr double kLeastShare = 1e-7;  // of a rate; less is rounding

class PlacementProgram {
 public:
  PlacementProgram(const Workflow& workflow, const Allowed& allowed)
      : workflow_(workflow), allowed_(allowed), rates_(required_rates(workflow)) {
    add_variants();
    add_workers();
    for (int o = 0; o < ops(); ++o) {
      for (int i = 0; i < static_cast<int>(workflow.ops[o].inputs.size()); ++i) add_messages(o, i);
    }
  }

  IntegerProgram::Solution solve(double seconds) const { return program_.solve(seconds); }

  Placement placement(const IntegerProgram::Solution& solution) const {
    Placement result;
    for (const std::vector<int>& variants : chosen_) {
      int best = 0;
      for (size_t v = 1; v < variants.size(); ++v) {
        if (solution.values[variants[v]] > solution.values[variants[best]]) best = static_cast<int>(v);
      }
      result.variants.push_back(best);
    }
    for (const Flow& flow : flows_) {
      const double rate = solution.values[flow.variable];
      if (flow.variant == result.variants[flow.op] && rate > kLeastShare * rates_[flow.op])
        result.shares.push_back({flow.op, flow.worker, rate});
    }
    for (const Message& message : messages_) {
      const double rate = solution.values[message.variable];
      if (rate > kLeastShare * rates_[message.traffic.op]) {
        result.traffic.push_back(message.traffic);
        result.traffic.back().rate = rate;
      }
    }
    for (const std::vector<int>& group : rented_) {
      std::vector<int>& counts = result.rented.emplace_back();
      for (const int variable : group)
        counts.push_back(static_cast<int>(std::lround(solution.values[variable])));
    }
    return result;
  }

  // Never these variants together; kAnyVariant says nothing.
  void forbid(const Variants& variants) {
    std::vector<IntegerProgram::Term> terms;
    for (int o = 0; o < ops(); ++o) {
      if (variants[o] != kAnyVariant) terms.emplace_back(chosen_[o][variants[o]], 1);
    }
    program_.add_row(0, static_cast<double>(terms.size()) - 1, terms);
  }

 private:
  struct Flow {
    int variable, op, variant, worker;
  };
  struct Message {
    int variable;
    Traffic traffic;
  };

  int ops() const { return static_cast<int>(workflow_.ops.size()); }
  bool may_use(int worker) const {
    return allowed_.tiers.empty() || allowed_.tiers[workflow_.workers[worker].tier];
  }

  // One variant of each op takes all of its inputs.
  void add_variants() {
    for (int o = 0; o < ops(); ++o) {
      std::vector<IntegerProgram::Term> one;
      chosen_.emplace_back();
      const std::vector<Variant>& variants = workflow_.ops[o].variants;
      for (int v = 0; v < static_cast<int>(variants.size()); ++v) {
        const bool open =
            allowed_.variants.empty() || allowed_.variants[o] == kAnyVariant || allowed_.variants[o] == v;
        const int chosen = program_.add_variable(0, open ? 1 : 0, true);
        chosen_[o].push_back(chosen);
        one.emplace_back(chosen, 1);
        std::vector<IntegerProgram::Term> all{{chosen, -rates_[o]}};
        for (int w = 0; w < static_cast<int>(workflow_.workers.size()); ++w) {
          if (!variants[v].seconds[w] || !may_use(w)) continue;
          flows_.push_back({program_.add_variable(0, rates_[o], false), o, v, w});
          all.emplace_back(flows_.back().variable, 1);
        }
        program_.add_row(0, 0, all);
      }
      program_.add_row(1, 1, one);
    }
  }

  // A worker computes as long as it may; one that is rented has a price.
  void add_workers() {
    const int groups = workflow_.shared ? 1 : ops();
    for (int group = 0; group < groups; ++group) rented_.emplace_back();
    for (int w = 0; w < static_cast<int>(workflow_.workers.size()); ++w) {
      const WorkerClass& worker = workflow_.workers[w];
      std::vector<IntegerProgram::Term> in_all;
      for (int group = 0; group < groups; ++group) {
        const int most = allowed_.rented.empty() ? worker.count : allowed_.rented[group][w];
        const int rented = program_.add_variable(worker.price_per_hour, most, true);
        rented_[group].push_back(rented);
        in_all.emplace_back(rented, 1);
        std::vector<IntegerProgram::Term> busy{{rented, -workflow_.load}};
        for (const Flow& flow : flows_) {
          if (flow.worker == w && (workflow_.shared || flow.op == group))
            busy.emplace_back(flow.variable, *workflow_.ops[flow.op].variants[flow.variant].seconds[w]);
        }
        program_.add_row(-kUnbounded, 0, busy);
      }
      program_.add_row(0, worker.count, in_all);
    }
  }

  // Messages along an input: what a tier makes leaves it, and what a tier takes comes to it. Their size is
  // that of the variant that makes them, so each has messages of its own.
  void add_messages(int o, int i) {
    const Op::Input& input = workflow_.ops[o].inputs[i];
    const int tiers = static_cast<int>(workflow_.tiers.size());
    std::vector<std::vector<IntegerProgram::Term>> come(tiers);
    const auto send = [&](int from, double kilobytes, std::vector<IntegerProgram::Term>& leave) {
      for (int to = 0; to < tiers; ++to) {
        const auto price = workflow_.price_of_messages(from, to, kilobytes);
        if (!price) continue;
        const int variable = program_.add_variable(*price, rates_[o], false);
        messages_.push_back({variable, {o, i, from, to, 0}});
        leave.emplace_back(variable, 1);
        come[to].emplace_back(variable, 1);
      }
    };
    if (input.is_source) {
      const Source& source = workflow_.sources[input.index];
      std::vector<IntegerProgram::Term> leave;
      send(source.tier, source.kilobytes, leave);
      program_.add_row(rates_[o], rates_[o], leave);
    } else {
      const double per_output = rates_[o] / rates_[input.index];
      const std::vector<Variant>& makers = workflow_.ops[input.index].variants;
      for (int v = 0; v < static_cast<int>(makers.size()); ++v) {
        for (int from = 0; from < tiers; ++from) {
          std::vector<IntegerProgram::Term> leave;
          send(from, makers[v].kilobytes, leave);
          for (const Flow& flow : flows_) {
            if (flow.op == input.index && flow.variant == v && workflow_.workers[flow.worker].tier == from)
              leave.emplace_back(flow.variable, -per_output);
          }
          program_.add_row(0, 0, leave);
        }
      }
    }
    for (int to = 0; to < tiers; ++to) {
      for (const Flow& flow : flows_) {
        if (flow.op == o && workflow_.workers[flow.worker].tier == to)
          come[to].emplace_back(flow.variable, -1);
      }
      program_.add_row(0, 0, come[to]);
    }
  }

  const Workflow& workflow_;
  const Allowed& allowed_;
  const std::vector<double> rates_;
  IntegerProgram program_;
  std::vector<std::vector<int>> chosen_;  // variables, by op and variant
  std::vector<std::vector<int>> rented_;  // by group and class
  std::vector<Flow> flows_;
  std::vector<Message> messages_;
};

// Of variants that are not accurate enough, as few as make it so whatever the other ops are.
Variants reason(const Workflow& workflow, Variants variants) {
  for (int& variant : variants) {
    const int kept = std::exchange(variant, kAnyVariant);
    if (accuracy_of(workflow, variants) >= workflow.accuracy) variant = kept;
  }
  return variants;
}

}  // namespace

BestPlacement best_placement(const Workflow& workflow, const Allowed& allowed, double seconds) {
  const Variants open(workflow.ops.size(), kAnyVariant);
  const Variants& variants = allowed.variants.empty() ? open : allowed.variants;
  if (const double best = accuracy_of(workflow, variants); best < workflow.accuracy)
    throw_error("no combination of variants has accuracy {}; the best has {}", workflow.accuracy, best);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  PlacementProgram program(workflow, allowed);
  double bound = 0;
  for (;;) {
    const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    const IntegerProgram::Solution solution = program.solve(std::max(left, 0.01));
    if (solution.end == IntegerProgram::Solution::End::kInfeasible)
      throw_error(
          "these workers cannot take the rates; add workers, or ask for less accuracy or a lower rate");
    // Rows are only ever added, so that no bound is taken back.
    bound = std::max(bound, solution.bound);
    const bool proven = solution.end == IntegerProgram::Solution::End::kOptimal;
    if (!solution.found)
      throw_error(
          "no placement was found in {} s, only that none costs less than {:.4g} $/h; allow more time",
          seconds, bound);
    const Placement placement = program.placement(solution);
    if (accuracy_of(workflow, placement.variants) >= workflow.accuracy) {
      check(workflow, placement);
      return {placement, bound, proven};
    }
    program.forbid(reason(workflow, placement.variants));
  }
}

}  // namespace trireme::place

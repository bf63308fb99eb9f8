// An op's variant is chosen together with one of its accuracy points, and the ops before it must have points
// that reach what this one needs of them: so accuracy is a matter of sums too.
#include "trireme/place/best_placement.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "trireme/base/error.h"
#include "trireme/place/integer_program.h"

namespace trireme::place {
namespace {

using End = IntegerProgram::Solution::End;

constexpr double kLeastShare = 1e-7;  // of a rate; less is rounding

class PlacementProgram {
 public:
  PlacementProgram(const Workflow& workflow, const Allowed& allowed, bool whole_workers)
      : workflow_(workflow),
        allowed_(allowed),
        whole_workers_(whole_workers),
        rates_(required_rates(workflow)) {
    add_variants();
    add_workers();
    for (int o = 0; o < ops(); ++o) {
      for (int i = 0; i < static_cast<int>(workflow.ops[o].inputs.size()); ++i) add_messages(o, i);
    }
  }

  IntegerProgram::Solution solve(double seconds, double cutoff) const {
    return program_.solve(seconds, cutoff);
  }

  Variants variants(const IntegerProgram::Solution& solution) const {
    Variants result;
    for (const std::vector<Point>& points : points_) {
      const auto value = [&](const Point& point) { return solution.values[point.variable]; };
      result.push_back(std::ranges::max_element(points, {}, value)->variant);
    }
    return result;
  }

  Placement placement(const IntegerProgram::Solution& solution) const {
    Placement result;
    result.variants = variants(solution);
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

 private:
  struct Flow {
    int variable, op, variant, worker;
  };
  struct Message {
    int variable;
    Traffic traffic;
  };
  struct Point {
    int variable, variant;
    const AccuracyPoint* accuracy;
  };

  int ops() const { return static_cast<int>(workflow_.ops.size()); }
  bool may_use(int worker) const {
    return allowed_.tiers.empty() || allowed_.tiers[workflow_.workers[worker].tier];
  }

  // One point of one variant of each op, which takes all of its inputs.
  void add_variants() {
    for (int o = 0; o < ops(); ++o) {
      std::vector<IntegerProgram::Term> one;
      std::vector<Point>& points = points_.emplace_back();
      const std::vector<Variant>& variants = workflow_.ops[o].variants;
      for (int v = 0; v < static_cast<int>(variants.size()); ++v) {
        const bool open =
            allowed_.variants.empty() || allowed_.variants[o] == kAnyVariant || allowed_.variants[o] == v;
        std::vector<IntegerProgram::Term> all;
        for (const AccuracyPoint& point : variants[v].points) {
          const bool enough = o + 1 < ops() || point.output >= workflow_.accuracy;
          points.push_back({program_.add_variable(0, open && enough ? 1 : 0, true), v, &point});
          one.emplace_back(points.back().variable, 1);
          all.emplace_back(points.back().variable, -rates_[o]);
        }
        for (int w = 0; w < static_cast<int>(workflow_.workers.size()); ++w) {
          if (!variants[v].seconds[w] || !may_use(w)) continue;
          flows_.push_back({program_.add_variable(0, rates_[o], false), o, v, w});
          all.emplace_back(flows_.back().variable, 1);
        }
        program_.add_row(0, 0, all);
      }
      program_.add_row(1, 1, one);
      add_needs(o);
    }
  }

  // For each accuracy that points of an op need of an input: if one of those is chosen, so is a point of the
  // input that reaches it.
  void add_needs(int o) {
    size_t place = 0;
    for (const Op::Input& input : workflow_.ops[o].inputs) {
      if (input.is_source) continue;
      std::set<double> needs;
      for (const Point& point : points_[o]) needs.insert(point.accuracy->inputs[place]);
      for (const double need : needs) {
        std::vector<IntegerProgram::Term> terms;
        for (const Point& point : points_[o]) {
          if (point.accuracy->inputs[place] >= need) terms.emplace_back(point.variable, 1);
        }
        for (const Point& point : points_[input.index]) {
          if (point.accuracy->output >= need) terms.emplace_back(point.variable, -1);
        }
        program_.add_row(-kUnbounded, 0, terms);
      }
      ++place;
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
        const int rented = program_.add_variable(worker.price_per_hour, most, whole_workers_);
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
  const bool whole_workers_;
  const std::vector<double> rates_;
  IntegerProgram program_;
  std::vector<std::vector<Point>> points_;  // by op
  std::vector<std::vector<int>> rented_;    // by group and class
  std::vector<Flow> flows_;
  std::vector<Message> messages_;
};

[[noreturn]] void refuse_rates() {
  throw TooFewWorkers(
      "these workers cannot take the rates; add workers, or ask for less accuracy or a lower rate");
}

}  // namespace

// First with workers that can be rented in parts: that is quick, and gives a bound, and variants for which
// whole workers are then sought. What costs more than those is left out when variants and whole workers are
// sought together.
BestPlacement best_placement(const Workflow& workflow, const Allowed& allowed, double seconds) {
  const Variants open(workflow.ops.size(), kAnyVariant);
  const Variants& variants = allowed.variants.empty() ? open : allowed.variants;
  if (const double best = accuracy_of(workflow, variants); best < workflow.accuracy)
    throw_error("no combination of variants has accuracy {}; the best has {}", workflow.accuracy, best);
  const auto start = std::chrono::steady_clock::now();
  const auto left = [&] {
    constexpr double kAtLeast = 0.01;
    return std::max(
        kAtLeast, seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  constexpr double kShareOfTime = 0.3;  // of the two steps before the last one, each
  BestPlacement best;
  double least = kUnbounded;
  const auto keep = [&](const PlacementProgram& program, const IntegerProgram::Solution& solution) {
    if (!solution.found) return;
    Placement placement = program.placement(solution);
    check(workflow, placement);
    const double cost = cost_of(workflow, placement).total();
    if (cost >= least) return;
    least = cost;
    best.placement = std::move(placement);
  };

  const PlacementProgram in_parts(workflow, allowed, false);
  const IntegerProgram::Solution parts = in_parts.solve(kShareOfTime * left(), kUnbounded);
  if (parts.end == End::kInfeasible) refuse_rates();
  if (parts.found) {
    Allowed these = allowed;
    these.variants = in_parts.variants(parts);
    const PlacementProgram program(workflow, these, true);
    keep(program, program.solve(kShareOfTime * left(), kUnbounded));
  }
  const PlacementProgram program(workflow, allowed, true);
  const IntegerProgram::Solution whole = program.solve(left(), least);
  keep(program, whole);
  best.bound = std::max(parts.bound, whole.bound);
  best.proven = whole.end != End::kTime;
  if (least == kUnbounded) {
    if (whole.end == End::kInfeasible) refuse_rates();
    throw_error("no placement was found in {} s, only that none costs less than {:.4g} $/h; allow more time",
                seconds, best.bound);
  }
  if (best.proven || best.bound > least) best.bound = least;
  return best;
}

}  // namespace trireme::place

// See verify.h: makes the programs, runs the ranks, compares.
#include "trireme/train/parity/verify.h"

#include <cmath>
#include <limits>
#include <mutex>

#include "trireme/base/error.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/plan_settings.h"

namespace trireme::parity {
namespace {

constexpr double kTimeoutSeconds = 300;

struct PlanStep {
  Gathering left, after;
  StepResult result;
};

struct PlanRun {
  std::vector<PlanStep> steps;
  Evaluation evaluation;
};

std::vector<Program> make_programs(const Training& training, const Plan& plan, const ProgramMaker& make) {
  std::vector<Program> programs;
  const std::unique_ptr<Device> device = make_device({.kind = training.train.device});
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const RankOptions ranks{plan, rank, nullptr};
    programs.push_back(
        make ? make(training, *device, ranks)
             : step_program(training.model, training.train, training.optim, training.shape, *device, ranks));
  }
  return programs;
}

PlanRun run_plan(const Reference& reference, const Plan& plan, std::vector<Program> programs) {
  const Training& training = reference.training();
  const std::vector<std::string> lasting = states_of(reference.program(), StateGroup::kLasting),
                                 left = states_of(reference.program(), StateGroup::kLeft);
  PlanRun run;
  run.steps.resize(reference.steps());
  std::mutex mutex;
  const auto one_rank = [&](comm::Context& context) {
    const int rank = context.rank();
    MeshCommunicator communicator(plan.mesh, context, axis_algorithms(plan, training.train));
    const std::unique_ptr<Device> device = make_device({.kind = training.train.device});
    Trainer trainer(std::move(programs[rank]), training.train, training.shape, *device,
                    {plan, rank, context.ranks() > 1 ? &communicator : nullptr});
    trainer.initialise(static_cast<uint64_t>(training.train.seed));
    for (int64_t step = 0; step < reference.steps(); ++step) {
      const Reference::Step& expected = reference.record()[step];
      PlanStep& found = run.steps[step];
      // The first step starts from the plan's own starting values.
      if (step > 0) write_states(trainer, expected.before);
      trainer.loss_scale = expected.loss_scale;
      trainer.scale_age = expected.scale_age;
      Batch batch = training.batches[step];
      trainer.forward_backward(batch, step);
      {
        const std::lock_guard lock(mutex);
        found.left.add(trainer, left, plan.mesh, rank);
      }
      const StepResult result = trainer.update(step, training.rates[step]);
      const std::lock_guard lock(mutex);
      found.after.add("loss", result.loss, rank);
      found.after.add("norm", result.norm, rank);
      found.after.add(trainer, lasting, plan.mesh, rank);
      if (rank == 0) found.result = result;
    }
    write_states(trainer, reference.record().back().before);
    Batch batch = training.batches.back();
    Evaluation evaluation;
    trainer.evaluate(batch, evaluation);
    if (rank == 0) run.evaluation = evaluation;
  };
  comm::run_rank_threads(plan.mesh.ranks(), one_rank, kTimeoutSeconds);
  return run;
}

// "[3, 17]"
std::string place(const Shape& shape, int64_t element) {
  std::vector<int64_t> coordinates(shape.rank());
  for (int d = shape.rank() - 1; d >= 0; --d) {
    coordinates[d] = element % shape[d];
    element /= shape[d];
  }
  return to_string(Shape(coordinates));
}

class Comparison {
 public:
  Comparison(Reference& reference, const PlanRun& run)
      : reference_(reference),
        run_(run),
        left_(states_of(reference.program(), StateGroup::kLeft)),
        updated_(states_of(reference.program(), StateGroup::kLasting)) {
    updated_.insert(updated_.begin(), {"loss", "norm"});  // the update begins with them
  }

  Result go() {
    for (int64_t step = 0; step < reference_.steps(); ++step) compare_step(step);
    compare_evaluation();
    return std::move(result_);
  }

 private:
  void compare_step(int64_t step) {
    const Reference::Step& expected = reference_.record()[step];
    const PlanStep& found = run_.steps[step];
    result_.losses.push_back({found.result.loss, expected.result.loss});
    check_replicas(step, found.left, "forward and backward");
    check_replicas(step, found.after, "the update");
    const States after = found.after.whole();
    const States& expected_after = reference_.record()[step + 1].before;
    bool equal = found.result.loss == expected.result.loss && found.result.norm == expected.result.norm &&
                 found.result.skipped == expected.result.skipped;
    for (const auto& [name, values] : expected_after) equal = equal && same_bits(values, after.at(name));
    if (equal) {
      result_.tensors += static_cast<int64_t>(expected_after.size()) + 1;
      return;
    }
    raise(Verdict::kRounding);
    if (found.result.skipped || expected.result.skipped) {
      if (found.result.skipped != expected.result.skipped)
        bug(fmt::format("step {}: skipped by {} only", step + 1,
                        found.result.skipped ? "the plan" : "one rank"));
      return;
    }
    const States left = found.left.whole();
    compare_all(fmt::format("step {}, forward and backward", step + 1), left_, expected.left, left,
                reference_.left_bounds(step));
    const Reference::Updated updated = reference_.update(step, left, found.left.reach());
    compare_all(fmt::format("step {}, update", step + 1), updated_, updated.states, after, updated.bounds);
  }

  void compare_evaluation() {
    const Evaluation &expected = reference_.evaluation(), &found = run_.evaluation;
    // Training with equal bits is equal, also when an evaluation adds up in another order.
    const auto as_values = [](double value) { return std::vector<float>{static_cast<float>(value)}; };
    compare("evaluation", "count", {}, as_values(expected.count), as_values(found.count), 0);
    compare("evaluation", "loss", {}, as_values(expected.loss), as_values(found.loss),
            reference_.evaluation_bound());
  }

  void compare_all(const std::string& when, const std::vector<std::string>& names, const States& expected,
                   const States& found, const Bounds& bounds) {
    for (const std::string& name : names) {
      const StateSlot* slot = reference_.program().find_state(name);
      compare(when, name, slot ? slot->part.whole : Shape{1}, expected.at(name), found.at(name),
              bounds.at(name));
    }
  }

  void compare(const std::string& when, const std::string& tensor, const Shape& shape,
               const std::vector<float>& expected, const std::vector<float>& found, double bound) {
    ++result_.tensors;
    double largest = 0;
    int64_t where = 0, beyond = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      double difference = std::abs(static_cast<double>(expected[i]) - static_cast<double>(found[i]));
      if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
      if (difference > bound) ++beyond;
      if (difference <= largest) continue;
      largest = difference;
      where = static_cast<int64_t>(i);
    }
    if (largest == 0) return;
    const double share = bound > 0 ? largest / bound : std::numeric_limits<double>::infinity();
    if (share > result_.worst) {
      result_.worst = share;
      result_.worst_tensor = fmt::format("{} ({})", tensor, when);
    }
    if (beyond == 0) return;
    bug(fmt::format(
        "{}: {} is {:.9g} at {} where one rank has {:.9g}; off by {:.3g}, and rounding explains {:.3g}; "
        "{} of {} elements are off",
        when, tensor, found[where], place(shape, where), expected[where], largest, bound, beyond,
        expected.size()));
  }

  void check_replicas(int64_t step, const Gathering& gathering, std::string_view when) {
    if (gathering.disagreement().empty()) return;
    bug(fmt::format("step {}, {}: ranks that should have the same have not: {}", step + 1, when,
                    gathering.disagreement()));
  }

  void bug(std::string reason) {
    if (result_.verdict != Verdict::kBug) result_.reason = std::move(reason);
    raise(Verdict::kBug);
  }
  void raise(Verdict verdict) { result_.verdict = std::max(result_.verdict, verdict); }

  Reference& reference_;
  const PlanRun& run_;
  std::vector<std::string> left_, updated_;  // names, in program order
  Result result_;
};

}  // namespace

std::string_view name(Verdict verdict) {
  constexpr std::string_view names[] = {"equal", "rounding", "bug", "refused"};
  return names[static_cast<int>(verdict)];
}

Result verify(Reference& reference, const Plan& plan, const ProgramMaker& make_program) {
  std::vector<Program> programs;
  try {
    programs = make_programs(reference.training(), plan, make_program);
  } catch (const Error& error) {
    Result refused;
    refused.verdict = Verdict::kRefused;
    refused.reason = error.what();
    return refused;
  }
  return Comparison(reference, run_plan(reference, plan, std::move(programs))).go();
}

}  // namespace trireme::parity

// See verify.h: makes the programs, runs the ranks, compares.
#include "trireme/train/parity/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "trireme/base/error.h"
#include "trireme/comm/context.h"
#include "trireme/exchange/choice.h"
#include "trireme/optim/update.h"
#include "trireme/plan/agreement.h"
#include "trireme/program/verify.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/train/axis_algorithms.h"

namespace trireme::parity {
namespace {

constexpr double kTimeoutSeconds = 300;
// Times what a few samples of noise explain; more samples would not explain it either. In f16, where batch
// norms of a few rows blow rounding up, they did explain 20 times as much.
constexpr double kNoDoubt = 256;

struct PlanStep {
  Gathering left, after;
  StepResult result;
};

struct PlanRun {
  std::vector<PlanStep> steps;
  Evaluation evaluation;
};

std::vector<Program> make_programs(const Training& training, const Plan& plan, const ProgramMaker& make) {
  if (plan.pipeline_stages() > 1 && is_asynchronous(pipeline_of(plan, training.train.accumulate)))
    throw_error(
        "the schedule {} is asynchronous: its gradients belong to older weights, so that it computes other "
        "numbers than one rank; verify its layouts under 1f1b",
        *plan.schedule);
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

// Those of the plan, but threads have no way of their own to do a collective, as MPI has: they choose one.
AxisAlgorithms thread_algorithms(const Plan& plan, const TrainOptions& train) {
  AxisAlgorithms algorithms = axis_algorithms(plan, train);
  for (auto& [axis, algorithm] : algorithms) {
    if (algorithm == comm::Algorithm::native) algorithm = comm::Algorithm::automatic;
  }
  return algorithms;
}

// What the forward and backward parts leave that a plan should have as one rank has it. Sums of squares of
// addends (train.noise_scale) are not: every rank's gradient is an addend of its own, and that is their use.
std::vector<std::string> comparable(std::vector<std::string> left) {
  std::erase_if(left,
                [](const std::string& name) { return name == kSquaresState || name == kCountSquaresState; });
  return left;
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
    MeshCommunicator communicator(plan.mesh, context, thread_algorithms(plan, training.train));
    const std::unique_ptr<Device> device = make_device({.kind = training.train.device});
    Trainer trainer(in_width(std::move(programs[rank]), reference.width(), *device), training.train,
                    training.shape, *device, {plan, rank, context.ranks() > 1 ? &communicator : nullptr});
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
        left_(comparable(states_of(reference.program(), StateGroup::kLeft))),
        updated_(states_of(reference.program(), StateGroup::kLasting)) {
    updated_.insert(updated_.begin(), {"loss", "norm"});  // the update begins with them
  }

  Result go() {
    for (int64_t step = 0; step < reference_.steps(); ++step) compare_step(step);
    if (!is_bug()) compare_evaluation();
    return std::move(result_);
  }

 private:
  void compare_step(int64_t step) {
    const Reference::Step& expected = reference_.record()[step];
    const PlanStep& found = run_.steps[step];
    result_.losses.push_back({found.result.loss, expected.result.loss});
    if (is_bug()) return;  // the first is what is told
    check_replicas(step, found.left, "forward and backward");
    check_replicas(step, found.after, "the update");
    const States after = found.after.whole();
    const States& expected_after = reference_.record()[step + 1].before;
    bool equal = same(found.result.loss, expected.result.loss) &&
                 same(found.result.norm, expected.result.norm) &&
                 found.result.skipped == expected.result.skipped;
    for (const auto& [name, values] : expected_after) equal = equal && same(values, after.at(name));
    if (equal) {
      result_.tensors += static_cast<int64_t>(expected_after.size()) + 1;
      return;
    }
    raise(Verdict::kRounding);
    if (found.result.skipped || expected.result.skipped) {
      // f16 overflows in a sum on one rank, and not in its parts on several. The program held in f32, where
      // nothing does, is judged besides.
      const bool may_overflow =
          precision_of(reference_.training().train) == DType::f16 && reference_.width() == Width::kAsItIs;
      if (found.result.skipped != expected.result.skipped && !may_overflow)
        bug(fmt::format("step {}: skipped by {} only", step + 1,
                        found.result.skipped ? "the plan" : "one rank"));
      return;
    }
    const States left = found.left.whole();
    compare_all(fmt::format("step {}, forward and backward", step + 1), left_, expected.left, left,
                [&](Samples samples) { return reference_.left_bounds(step, samples); });
    if (is_bug()) return;
    const States updated = reference_.update(step, left), reach = found.left.reach();
    compare_all(fmt::format("step {}, update", step + 1), updated_, updated, after, [&](Samples samples) {
      return reference_.update_bounds(step, left, reach, updated, samples);
    });
  }

  void compare_evaluation() {
    // Training with equal bits is equal, also when an evaluation adds up in another order.
    const auto states = [](const Evaluation& evaluation) {
      return States{{"count", {static_cast<float>(evaluation.count)}},
                    {"loss", {static_cast<float>(evaluation.loss)}}};
    };
    compare_all(
        "evaluation", {"count", "loss"}, states(reference_.evaluation()), states(run_.evaluation),
        [&](Samples samples) {
          return Bounds{{"count", {0}}, {"loss", {static_cast<float>(reference_.evaluation_bound(samples))}}};
        });
    const Evaluation &expected = reference_.evaluation(), &found = run_.evaluation;
    if (found.loss == expected.loss && found.correct != expected.correct)  // the same logits, then
      bug(fmt::format("evaluation: {} targets are foretold right, by one rank {}", found.correct,
                      expected.correct));
  }

  // What seems to be off, but not by so much that there is no doubt, is judged again by more samples.
  void compare_all(const std::string& when, const std::vector<std::string>& names, const States& expected,
                   const States& found, const std::function<Bounds(Samples)>& bounds_of) {
    std::vector<Difference> differences;
    for (const Samples samples : {Samples::kFew, Samples::kMany}) {
      const Bounds bounds = bounds_of(samples);
      differences.clear();
      for (const std::string& name : names)
        differences.push_back(difference(expected.at(name), found.at(name), bounds.at(name)));
      double worst = 0;
      // Where the samples moved nothing at all, the next ones may: a ReLU that lets one more value through.
      for (const Difference& one : differences)
        worst = std::max(worst, one.bound > 0 ? one.share : std::min(one.share, kNoDoubt));
      if (worst <= 1 || worst > kNoDoubt) break;
    }
    for (size_t i = 0; i < names.size(); ++i)
      note(when, names[i], expected.at(names[i]), found.at(names[i]), differences[i]);
  }

  // Of one tensor: where it is off most, as a share of what rounding may do there.
  struct Difference {
    double share = 0, bound = 0;
    int64_t element = 0, beyond = 0;
  };

  static Difference difference(const std::vector<float>& expected, const std::vector<float>& found,
                               const std::vector<float>& bounds) {
    Difference worst;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (same(expected[i], found[i]) || expected[i] == found[i]) continue;
      const double off = std::abs(static_cast<double>(expected[i]) - static_cast<double>(found[i]));
      const double bound = static_cast<double>(bounds[i]);
      const double share =
          std::isfinite(off) && bound > 0 ? off / bound : std::numeric_limits<double>::infinity();
      if (share > 1) ++worst.beyond;
      if (share > worst.share) worst = {share, bound, static_cast<int64_t>(i), worst.beyond};
    }
    return worst;
  }

  void note(const std::string& when, const std::string& tensor, const std::vector<float>& expected,
            const std::vector<float>& found, const Difference& worst) {
    ++result_.tensors;
    if (worst.share > result_.worst) {
      result_.worst = worst.share;
      result_.worst_tensor = fmt::format("{} ({})", tensor, when);
    }
    if (worst.beyond == 0) return;
    const State* slot = reference_.program().find_state(tensor);
    const float here = found[worst.element], there = expected[worst.element];
    bug(fmt::format(
        "{}: {} is {:.9g} at {} where one rank has {:.9g}; off by {:.3g}, and rounding explains {:.3g}; "
        "{} of {} elements are off",
        when, tensor, here, place(slot ? slot->part.whole : Shape{}, worst.element), there,
        std::abs(static_cast<double>(here) - static_cast<double>(there)), worst.bound, worst.beyond,
        expected.size()));
  }

  void check_replicas(int64_t step, const Gathering& gathering, std::string_view when) {
    if (gathering.disagreement().empty()) return;
    bug(fmt::format("step {}, {}: ranks that should have the same have not: {}", step + 1, when,
                    gathering.disagreement()));
  }

  bool is_bug() const { return result_.verdict == Verdict::kBug; }
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

Result compare_runs(Reference& reference, const Plan& plan, std::vector<Program> programs) {
  return Comparison(reference, run_plan(reference, plan, std::move(programs))).go();
}

}  // namespace

std::string_view name(Verdict verdict) {
  constexpr std::string_view names[] = {"equal", "rounding", "bug", "refused"};
  return names[static_cast<int>(verdict)];
}

Result verify(Reference& reference, const Plan& plan, const ProgramMaker& make_program) {
  std::vector<Program> programs;
  try {
    if (plan.agreement.servers())
      throw_error(
          "it has a server, whose steps are those of a run (`trireme train`). Without the key exchange the "
          "rest of the plan can be verified; servers are held to plain data parallelism and to the order of "
          "arrivals by the project's own tests");
    if (!plan.agreement.is_dense())
      throw_error(
          "its exchange sends less than the gradients, so that no step is meant to equal one rank's, and "
          "there is nothing to hold it to. Without the key exchange the rest of the plan can be verified; "
          "the methods are held to their equations by the project's own tests");
    axis_algorithms(plan, reference.training().train);
    programs = make_programs(reference.training(), plan, make_program);
  } catch (const Error& error) {
    return {.verdict = Verdict::kRefused, .reason = error.what()};
  }
  try {
    if (!make_program) trireme::verify(programs);
  } catch (const Error& error) {  // no fault of the plan
    return {.verdict = Verdict::kBug,
            .reason = fmt::format("the ranks' programs are broken: {}", error.what())};
  }
  Result result = compare_runs(reference, plan, programs);
  if (precision_of(reference.training().train) == DType::f32) return result;
  // Also of a bug: where it begins is seen sharper.
  const Result wide = compare_runs(reference.widened(), plan, std::move(programs));
  result.tensors += wide.tensors;
  if (wide.worst > result.worst) {
    result.worst = wide.worst;
    result.worst_tensor = "widened to f32, " + wide.worst_tensor;
  }
  if (wide.verdict == Verdict::kBug) {
    result.verdict = Verdict::kBug;
    result.reason = "widened to f32, " + wide.reason;
  }
  return result;
}

}  // namespace trireme::parity

// See verify.h: makes the programs, runs the ranks, compares.
#include "trireme/train/parity/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "trireme/base/error.h"
#include "trireme/exchange/choice.h"
#include "trireme/optim/update.h"
#include "trireme/plan/agreement.h"
#include "trireme/plan/combinations.h"
#include "trireme/program/verify.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/parity/agreeing.h"
#include "trireme/train/parity/compressed.h"
#include "trireme/train/parity/plan_ranks.h"
#include "trireme/train/parity/sent.h"
#include "trireme/train/parity/served.h"

namespace trireme::parity {
namespace {

struct PlanStep {
  Gathering left, after;
  std::vector<Compressing> groups;  // of compressed agreement
  StepResult result;
};

struct PlanRun {
  std::vector<PlanStep> steps;
  Evaluation evaluation;
  std::string bytes_problem;  // "": ranks have sent what they should
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

// What the forward and backward parts leave that a plan should have as one rank has it. Sums of squares of
// addends (train.noise_scale) are not: every rank's gradient is an addend of its own, and that is their use.
std::vector<std::string> comparable(std::vector<std::string> left) {
  std::erase_if(left,
                [](const std::string& name) { return name == kSquaresState || name == kCountSquaresState; });
  return left;
}

PlanRun run_plan(const Reference& reference, const Plan& plan, const std::vector<Program>& programs) {
  const Training& training = reference.training();
  const std::vector<std::string> lasting = states_of(reference.program(), StateGroup::kLasting),
                                 left = states_of(reference.program(), StateGroup::kLeft);
  PlanRun run;
  run.steps.resize(reference.steps());
  const bool compressed = plan.agreement.kind() == Agreement::Kind::kCompressed;
  // By step, group and replica, what its stages have left.
  std::vector<std::vector<std::vector<Gathering>>> left_by(run.steps.size());
  const auto groups = static_cast<size_t>(compressing_groups(plan.mesh));
  for (size_t step = 0; compressed && step < run.steps.size(); ++step) {
    const auto replicas = static_cast<size_t>(replicas_of(plan.mesh));
    run.steps[step].groups.assign(groups, {.parts = {}, .replicas = std::vector<OfReplica>(replicas)});
    left_by[step].assign(groups, std::vector<Gathering>(replicas));
  }
  std::mutex mutex;
  AxisAlgorithms algorithms = axis_algorithms(plan, training.train);
  if (compressed) algorithms[std::string(replica_axis(plan.mesh))] = comm::Algorithm::ring;
  const auto one_rank = [&](PlanRank& own) {
    const int rank = own.rank();
    Trainer& trainer = own.trainer;
    const std::vector<std::string> kept = kept_states(trainer.program());
    const auto group = static_cast<size_t>(compressing_group(plan.mesh, rank));
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
        if (compressed) {
          const int replica = replica_of(plan.mesh, rank);
          left_by[step][group][replica].add(trainer, left, plan.mesh, rank);
          note_parts(trainer.program(), found.groups[group].parts);
          found.groups[group].replicas[replica].kept_before.merge(read_states(trainer, kept));
        }
      }
      const StepResult result = trainer.update(step, training.rates[step]);
      const std::lock_guard lock(mutex);
      if (compressed) {
        found.groups[group].replicas[replica_of(plan.mesh, rank)].kept_after.merge(
            read_states(trainer, kept));
      }
      const uint64_t should =
          bytes_by_steps(trainer.program(), trainer.program().step_list(step + 1), algorithms);
      const uint64_t sent = own.communicator.take_bytes();
      if (own.counts_bytes && sent != should && run.bytes_problem.empty())
        run.bytes_problem = fmt::format("step {}: rank {} has sent {} bytes, and its program promises {}",
                                        step + 1, rank, sent, should);
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
  run_plan_ranks(reference, plan, programs, algorithms, Messages::kAtOnce, one_rank);
  for (int64_t step = 1; step <= reference.steps() && run.bytes_problem.empty(); ++step)
    run.bytes_problem = promise_problem(programs, step);
  for (size_t step = 0; step < run.steps.size(); ++step) {
    for (size_t g = 0; g < left_by[step].size(); ++g) {
      Compressing& group = run.steps[step].groups[g];
      for (size_t r = 0; r < group.replicas.size(); ++r)
        group.replicas[r].left = cut(left_by[step][g][r].whole(), group.parts);
    }
  }
  return run;
}

class Comparison {
 public:
  Comparison(Reference& reference, const Agreement& how, const PlanRun& run)
      : reference_(reference),
        how_(how),
        run_(run),
        left_(comparable(states_of(reference.program(), StateGroup::kLeft))),
        updated_(states_of(reference.program(), StateGroup::kLasting)),
        judge_(reference.program()) {
    updated_.insert(updated_.begin(), {"loss", "norm"});  // the update begins with them
  }

  Result go() {
    for (int64_t step = 0; step < reference_.steps(); ++step) compare_step(step);
    if (!is_bug()) compare_evaluation();
    if (!run_.bytes_problem.empty()) judge_.bug(run_.bytes_problem);
    return std::move(judge_.result);
  }

 private:
  void compare_step(int64_t step) {
    const Reference::Step& expected = reference_.record()[step];
    const PlanStep& found = run_.steps[step];
    judge_.result.losses.push_back({found.result.loss, expected.result.loss});
    if (is_bug()) return;  // the first one is reported
    check_replicas(step, found.left, "forward and backward");
    check_replicas(step, found.after, "the update");
    const States after = found.after.whole();
    const States& expected_after = reference_.record()[step + 1].before;
    bool equal = same(found.result.loss, expected.result.loss) &&
                 same(found.result.norm, expected.result.norm) &&
                 found.result.skipped == expected.result.skipped;
    for (const auto& [name, values] : expected_after) equal = equal && same(values, after.at(name));
    if (equal && found.groups.empty()) {
      judge_.result.tensors += static_cast<int64_t>(expected_after.size()) + 1;
      return;
    }
    judge_.raise(Verdict::kRounding);
    if (found.result.skipped || expected.result.skipped) {
      // f16 overflows in a sum on one rank, and not in its parts on several. The program held in f32, where
      // nothing does, is judged besides.
      const bool may_overflow =
          precision_of(reference_.training().train) == DType::f16 && reference_.width() == Width::kAsItIs;
      if (found.result.skipped != expected.result.skipped && !may_overflow)
        judge_.bug(fmt::format("step {}: skipped by {} only", step + 1,
                               found.result.skipped ? "the plan" : "one rank"));
      return;
    }
    const States left = found.left.whole();
    judge_.compare(fmt::format("step {}, forward and backward", step + 1), left_, expected.left, left,
                   [&](Samples samples) { return reference_.left_bounds(step, samples); });
    if (is_bug()) return;
    States agreed = left, reach = found.left.reach();
    if (!found.groups.empty()) {
      Agreed written =
          agreed_step(how_, reference_.program(), step + 1, expected.loss_scale, left, found.groups);
      if (!written.problem.empty()) judge_.bug(written.problem);
      agreed = std::move(written.left);
      for (auto& [name, bounds] : written.left_bounds) {
        for (size_t i = 0; i < bounds.size(); ++i) reach.at(name)[i] = std::max(reach.at(name)[i], bounds[i]);
      }
    }
    const States updated = reference_.update(step, agreed);
    judge_.compare(fmt::format("step {}, update", step + 1), updated_, updated, after, [&](Samples samples) {
      return reference_.update_bounds(step, agreed, reach, updated, samples);
    });
  }

  void compare_evaluation() {
    // Training with equal bits is equal, also when an evaluation adds up in another order.
    const auto states = [](const Evaluation& evaluation) {
      return States{{"count", {static_cast<float>(evaluation.count)}},
                    {"loss", {static_cast<float>(evaluation.loss)}}};
    };
    judge_.compare(
        "evaluation", {"count", "loss"}, states(reference_.evaluation()), states(run_.evaluation),
        [&](Samples samples) {
          return Bounds{{"count", {0}}, {"loss", {static_cast<float>(reference_.evaluation_bound(samples))}}};
        });
    const Evaluation &expected = reference_.evaluation(), &found = run_.evaluation;
    if (found.loss == expected.loss && found.correct != expected.correct)  // the same logits, then
      judge_.bug(fmt::format("evaluation: {} targets are foretold right, by one rank {}", found.correct,
                             expected.correct));
  }

  void check_replicas(int64_t step, const Gathering& gathering, std::string_view when) {
    if (gathering.disagreement().empty()) return;
    judge_.bug(fmt::format("step {}, {}: ranks that should have the same have not: {}", step + 1, when,
                           gathering.disagreement()));
  }

  bool is_bug() const { return judge_.is_bug(); }

  Reference& reference_;
  const Agreement& how_;
  const PlanRun& run_;
  std::vector<std::string> left_, updated_;  // names, in program order
  Judge judge_;
};

Result compare_runs(Reference& reference, const Plan& plan, const std::vector<Program>& programs) {
  return Comparison(reference, plan.agreement, run_plan(reference, plan, programs)).go();
}

}  // namespace

Result verify(Reference& reference, const Plan& plan, const ProgramMaker& make_program) {
  std::vector<Program> programs;
  try {
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
  if (plan.agreement.has_own_weights() || plan.agreement.servers()) {
    const Training& training = reference.training();
    const auto judge = plan.agreement.servers() ? verify_served : verify_agreeing;
    Result result = judge(training, plan, Width::kAsItIs, programs);
    if (precision_of(training.train) == DType::f32) return result;
    return both_widths(std::move(result), judge(training, plan, Width::kWidened, programs));
  }
  Result result = compare_runs(reference, plan, programs);
  if (precision_of(reference.training().train) == DType::f32) return result;
  // Also of a bug: where it begins is seen sharper.
  return both_widths(std::move(result), compare_runs(reference.widened(), plan, programs));
}

}  // namespace trireme::parity

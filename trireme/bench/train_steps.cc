// See train_steps.h.
#include "trireme/bench/train_steps.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/base/statistics.h"
#include "trireme/bench/ceilings.h"
#include "trireme/plan/agreement.h"
#include "trireme/program/file_turns.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::bench {
namespace {

void run_steps(Trainer& trainer, const StepSetup& setup, const StepQuestion& question, const StepRank& rank,
               StepReport& report) {
  std::vector<double> step_seconds, exposed, waiting, files, file_waits;
  Batch batch = random_batch(setup, setup.config.train.seed);
  const std::vector<Batch*> ahead(static_cast<size_t>(std::max<int64_t>(1, trainer.steps_ahead())), &batch);
  for (int step = 0; step < question.warmup + question.steps; ++step) {
    const Clock::time_point begin = Clock::now();
    const StepResult result = trainer.step(batch, question.first + step, setup.config.optim.lr, ahead);
    const double seconds = seconds_since(begin);
    if (!std::isfinite(result.norm)) throw_error("the gradient is not finite at step {}", step + 1);
    if (step == 0) report.first_loss = result.loss;
    report.last_loss = result.loss;
    Communicator* const communicator = trainer.executor().communicator();
    const double in_collectives = communicator ? communicator->take_seconds() : 0;
    const FileStates::Times file_times = trainer.executor().take_file_times();
    if (step < question.warmup) continue;
    files.push_back(file_times.moving);
    file_waits.push_back(file_times.waited);
    step_seconds.push_back(seconds);
    exposed.push_back(in_collectives);
  }
  waiting = exposed;
  if (rank.context) {
    comm::Group world = rank.context->world();
    world.all_reduce(exposed.data(), question.steps, DType::f64, comm::ReduceOp::min).wait();
    world.all_reduce(waiting.data(), question.steps, DType::f64, comm::ReduceOp::max).wait();
  }
  report.file_bytes = file_bytes_moved(trainer.program(), trainer.program().list(When::step()).actions);
  report.file_seconds = median_of(files);
  report.file_waited_seconds = median_of(file_waits);
  report.resident_bytes = peak_resident_bytes();
  report.least_seconds = *std::ranges::min_element(step_seconds);
  report.median_seconds = median_of(step_seconds);
  report.p90_seconds = quantile_of(step_seconds, 0.9);
  report.exposed_seconds = median_of(exposed);
  report.waiting_seconds = median_of(waiting);
  report.units_per_second = static_cast<double>(setup.units_per_step()) / report.median_seconds;
}

std::vector<ProfileRow> profile_steps(Trainer& trainer, const StepSetup& setup, const StepQuestion& question,
                                      Ceilings& ceilings) {
  Batch batch = random_batch(setup, setup.config.train.seed);
  const std::vector<Batch*> ahead(static_cast<size_t>(trainer.steps_ahead()), &batch);
  Profile profile(*question.profile, ceilings, trainer.executor());
  for (int step = 0; step < question.steps; ++step) {
    trainer.step(batch, question.first + question.warmup + question.steps + step, setup.config.optim.lr,
                 ahead);
    profile.end_step();
  }
  return profile.rows();
}

}  // namespace

StepReport time_steps(const StepSetup& setup, const StepQuestion& question, const StepRank& rank,
                      const std::function<void(const StepReport&)>& begins) {
  if (rank.options.plan.agreement.servers())
    throw_error(
        "the plan has the exchange {}, whose server's steps are those of its workers; `trireme train` says "
        "how long they take, and there is nothing to time without",
        rank.options.plan.agreement.method());
  StepReport report;
  report.ranks = rank.ranks();
  const long threads = setup.config.train.threads;
  report.threads = threads ? static_cast<int>(threads) : std::max(1, thread_count(0) / report.ranks);
  const std::unique_ptr<Device> device =
      make_device({.kind = setup.config.train.device,
                   .threads = report.threads,
                   .rank_here = rank.context ? rank.context->rank_here() : 0,
                   .products = question.products,
                   .f32_products = f32_products_of(setup.config.train),
                   .links = rank.context ? rank.context->device_links() : comm::DeviceLinks::through_host});
  Trainer trainer(setup.config.model, setup.config.train, setup.config.optim, setup.shape, *device,
                  rank.options);
  trainer.initialise(static_cast<uint64_t>(setup.config.train.seed));
  report.device = device->name();
  report.device_description = device->description();
  report.parameters = trainer.parameter_count();
  report.planned_bytes = trainer.program().peak_bytes();
  report.model_flops = model_flops(setup.config.model, setup.config.train, setup.shape);
  begins(report);
  if (!question.peak) {
    run_steps(trainer, setup, question, rank, report);
    return report;
  }

  ThreadPool pool(report.threads);
  double peak = question.peak_flops_per_second;
  std::unique_ptr<Ceilings> ceilings;
  if (peak <= 0 || question.profile)
    ceilings = device->name() == "cpu"
                   ? std::make_unique<Ceilings>(pool)
                   : std::make_unique<Ceilings>(*device, precision_of(setup.config.train));
  run_steps(trainer, setup, question, rank, report);
  if (ceilings) ceilings->measure_again();
  if (peak <= 0) peak = ceilings->flops_per_second();  // all ranks measure at the same time
  report.peak_flops_per_second = peak * report.ranks;
  if (question.profile) report.profile = profile_steps(trainer, setup, question, *ceilings);
  return report;
}

}  // namespace trireme::bench

// Does a pipeline's step take as long as its timeline says? Stages as threads run real programs, with real
// messages, of a model so small that its arithmetic takes no time; each turn then sleeps for a known while.
// Strictly (support/times.h) the median of five is within 5 % of what was foretold; otherwise a step is only
// not shorter than it can be.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "tests/support/times.h"
#include "trireme/comm/context.h"
#include "trireme/passes/stage.h"
#include "trireme/run/config.h"
#include "trireme/run/random_case.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/runtime/runner.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/schedule/timeline.h"
#include "trireme/train/trainer.h"

namespace trireme::parity {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMicrobatches = 8;

Training small_training(const char* family, int accumulate) {
  const ResolvedConfig config =
      resolve_config({.command_line = {fmt::format("model.family={}", family), "model.layers=8",
                                       "model.heads=1", "model.hidden=2", "model.seq=2", "model.vocab=4",
                                       "train.batch=8", fmt::format("train.accumulate={}", accumulate),
                                       "train.clip_norm=0", "data.path=none"}});
  return random_training(config.config, Shape{2}, 1);
}

// How long each piece of a stage sleeps, by its name.
std::map<std::string, double> sleeps_of(const Pipeline& pipeline, const ChunkTimes& times) {
  std::map<std::string, double> result;
  const bool apart = has_phase(pipeline, Phase::kWeight);
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
    for (const char* whole : {"first", "next"}) {
      result[piece_name(whole, chunk, Phase::kForward)] = times.forward;
      result[piece_name(whole, chunk, Phase::kBackward)] = times.backward + (apart ? 0 : times.weight);
      result[piece_name(whole, chunk, Phase::kWeight)] = times.weight;
    }
  }
  return result;
}

// What a stage does, its arithmetic replaced by sleeps.
class SleepingStage {
 public:
  SleepingStage(comm::Context& context, const Training& training, const Plan& plan,
                const std::map<std::string, double>& sleeps)
      : communicator_(plan.mesh, context),
        device_(make_cpu_device(1)),
        executor_(step_program(training.model, training.train, training.optim, training.shape, *device_,
                               {plan, context.rank()}),
                  *device_, &communicator_),
        runner_(executor_),
        sleeps_(sleeps) {
    context.world().barrier().wait();
  }

  void run(std::span<const Runner::Turn> turns, int64_t first_slot = 0) {
    static constexpr std::array<std::byte, 4096> kZeros = {};
    const auto before = [&](const Runner::Turn& turn) {
      for (const Value& value : executor_.program().segments[turn.segment].graph.values) {
        if (value.kind == Value::Kind::kInput)
          executor_.set_input(turn.segment, value.name, kZeros.data(), value.type.bytes());
      }
    };
    const auto after = [&](const Runner::Turn& turn) {
      const auto found = sleeps_.find(turn.action->what);  // the update takes no time
      if (found != sleeps_.end()) std::this_thread::sleep_for(std::chrono::duration<double>(found->second));
    };
    runner_.run(turns, before, after, first_slot);
  }
  const Runner& runner() const { return runner_; }
  std::span<const Runner::Turn> turns(const When& when) const {
    return runner_.turns(executor_.program().list(when));
  }

 private:
  MeshCommunicator communicator_;
  std::unique_ptr<Device> device_;
  Executor executor_;
  Runner runner_;
  const std::map<std::string, double>& sleeps_;
};

// Seconds from when all stages begin until the last has done its backward parts.
double measured_step(const Training& training, const Plan& plan,
                     const std::map<std::string, double>& sleeps) {
  std::mutex mutex;
  Clock::time_point first = Clock::time_point::max(), last = Clock::time_point::min();
  comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
    SleepingStage stage(context, training, plan, sleeps);
    const Clock::time_point begin = Clock::now();
    stage.run(stage.runner().gradient_turns());
    const Clock::time_point end = Clock::now();
    const std::lock_guard lock(mutex);
    first = std::min(first, begin);
    last = std::max(last, end);
  });
  return std::chrono::duration<double>(last - first).count();
}

// Seconds of a step of an asynchronous pipeline that has been filled, on the average over some.
double measured_steps(const Training& training, const Plan& plan,
                      const std::map<std::string, double>& sleeps) {
  constexpr int kWarmUp = 4, kSteps = 8;
  double seconds = 0;
  comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
    SleepingStage stage(context, training, plan, sleeps);
    stage.run(stage.turns(When::fill()));
    Clock::time_point begin;
    for (int64_t step = 0; step < kWarmUp + kSteps; ++step) {
      if (step == kWarmUp) begin = Clock::now();
      stage.run(stage.turns(When::step()), step * training.train.accumulate);
    }
    if (context.rank() == 0) seconds = std::chrono::duration<double>(Clock::now() - begin).count() / kSteps;
  });
  return seconds;
}

// No stage ever waits for another: a step takes as long as what one stage does in it.
TEST(PipelineTimes, OfAsynchronousStepsHaveNoBubble) {
  const double unit = times_are_strict() ? 0.04 : 0.004;
  for (const auto& [name, accumulate] : {std::pair("pipedream", 1), std::pair("2bw", 4)}) {
    const Training training = small_training("llama", accumulate);
    const Plan plan = parse_plan(fmt::format(R"({{"mesh": "pipe:4", "schedule": "{}"}})", name), "plan");
    const Pipeline pipeline = pipeline_of(plan, accumulate);
    std::map<std::string, double> sleeps = sleeps_of(pipeline, {unit, unit, unit, 0});
    for (const auto& [piece, seconds] : std::map(sleeps)) sleeps[piece + ".kept"] = seconds;
    const double foretold = 3 * unit * accumulate;
    std::vector<double> measured;
    for (int round = 0; round < (times_are_strict() ? 5 : 1); ++round)
      measured.push_back(measured_steps(training, plan, sleeps));
    std::ranges::sort(measured);
    const double median = measured[measured.size() / 2];
    fmt::print("{}: {:.4f} s, foretold {:.4f}: {:.3f}\n", name, median, foretold, median / foretold);
    EXPECT_GT(median, 0.999 * foretold) << name;
    if (times_are_strict()) {
      EXPECT_LT(median, 1.05 * foretold) << name;
    }
  }
}

TEST(PipelineTimes, AreWhatTheTimelineSays) {
  const Training training = small_training("gpt", kMicrobatches);
  const double unit = times_are_strict() ? 0.04 : 0.004;  // a phase of a stage
  for (const char* keys : {R"("gpipe")", R"("1f1b")", R"("interleaved", "chunks": 2)", R"("chimera")",
                           R"("zb_h1")", R"("zb_h2")", R"("zb_v")"}) {
    const Plan plan = parse_plan(fmt::format(R"({{"mesh": "pipe:4", "schedule": {}}})", keys), "plan");
    const Pipeline pipeline = pipeline_of(plan, kMicrobatches);
    const ChunkTimes times = per_chunk({unit, unit, unit, 0}, pipeline);
    const double foretold = timeline(pipeline, {.chunks = {times}}).end;
    std::vector<double> measured;
    for (int round = 0; round < (times_are_strict() ? 5 : 1); ++round)
      measured.push_back(measured_step(training, plan, sleeps_of(pipeline, times)));
    std::ranges::sort(measured);
    const double median = measured[measured.size() / 2];
    fmt::print("{}: {:.4f} s, foretold {:.4f}: {:.3f}\n", keys, median, foretold, median / foretold);
    EXPECT_GT(median, 0.999 * foretold) << keys;
    if (times_are_strict()) {
      EXPECT_LT(median, 1.05 * foretold) << keys;
    }
  }
}

}  // namespace
}  // namespace trireme::parity

// Asynchronous pipelines, free-running, against one rank that computes each gradient with the weights that
// the stages had then, and applies it to its newest ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tests/support/error_of.h"
#include "trireme/comm/context.h"
#include "trireme/ops/table.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"
#include "trireme/run/config.h"
#include "trireme/run/random_case.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/parity/states.h"
#include "trireme/train/parity/verify.h"

namespace trireme::parity {
namespace {

using ::testing::HasSubstr;
constexpr int64_t kSteps = 9;

Training stages_training(std::vector<std::string> settings) {
  for (const char* setting : {"model.layers=4", "model.heads=2", "model.hidden=8", "model.seq=4",
                              "model.vocab=16", "train.clip_norm=0", "data.path=none"})
    settings.emplace_back(setting);
  const Config config = resolve_config({.command_line = settings}).config;
  return random_training(config, Shape{4}, kSteps);
}

std::vector<std::string> weights_of(const Program& program) {
  std::vector<std::string> names;
  for (const State& state : program.states) {
    if (state.role == Role::kParameter || state.role == Role::kMaster) names.push_back(state.name);
  }
  return names;
}

struct Course {
  std::vector<double> losses;
  std::vector<States> weights;  // before the first step, and after each
  double evaluated = 0;         // after the fourth
};

// How many steps ago the weights were made, of a stage, that a step's microbatches are computed with.
using Delay = std::function<int64_t(int stage)>;

// `stage_of`: of a weight.
Course delayed_run(const Training& training, const std::map<std::string, int>& stage_of, const Delay& delay) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(training.model, training.train, training.optim, training.shape, *device);
  trainer.initialise(1);
  const std::vector<std::string> names = weights_of(trainer.program());
  Course run;
  run.weights.push_back(read_states(trainer, names));
  for (int64_t step = 0; step < kSteps; ++step) {
    States old;
    for (const auto& [name, stage] : stage_of)
      old[name] = run.weights[std::max<int64_t>(0, step - delay(stage))].at(name);
    write_states(trainer, old);
    Batch batch = training.batches[step];
    trainer.forward_backward(batch, step);
    write_states(trainer, run.weights.back());
    run.losses.push_back(trainer.update(step, training.rates[step]).loss);
    run.weights.push_back(read_states(trainer, names));
    if (step != 3) continue;
    Evaluation evaluation;
    trainer.evaluate(batch, evaluation);
    run.evaluated = evaluation.loss;
  }
  return run;
}

struct PlanRun {
  Course run;
  std::map<std::string, int> stage_of;
  std::vector<size_t> kept_bytes, weight_bytes;  // per stage
};

PlanRun run_of(const Training& training, const Plan& plan) {
  PlanRun result;
  const int stages = plan.pipeline_stages();
  result.kept_bytes.resize(stages);
  result.weight_bytes.resize(stages);
  std::vector<Gathering> weights(kSteps);
  std::mutex mutex;
  comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
    const int rank = context.rank(), stage = plan.mesh.coordinate(rank, plan.mesh.axis(kPipeAxis));
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(training.model, training.train, training.optim, training.shape, *device,
                    {plan, rank, &communicator});
    EXPECT_EQ(trainer.executor().allocated_bytes(), trainer.program().peak_bytes());
    trainer.initialise(1);
    const std::vector<std::string> names = weights_of(trainer.program());
    {
      const std::lock_guard lock(mutex);
      size_t kept = 0, all = 0;
      for (const State& state : trainer.program().states) {
        if (state.role == Role::kVersion) kept += state.type.bytes() * static_cast<size_t>(state.slots);
        if (state.role == Role::kParameter) all += state.type.bytes();
      }
      result.kept_bytes[stage] = kept;
      result.weight_bytes[stage] = all;
      for (const std::string& name : names) result.stage_of[name] = stage;
    }
    for (int64_t step = 0; step < kSteps; ++step) {
      std::vector<Batch> batches(training.batches.begin() + step, training.batches.end());
      while (std::ssize(batches) <= trainer.steps_ahead()) batches.push_back(batches.back());
      std::vector<Batch*> ahead;
      for (size_t i = 1; i < batches.size(); ++i) ahead.push_back(&batches[i]);
      const StepResult done = trainer.step(batches[0], step, training.rates[step], ahead);
      {
        const std::lock_guard lock(mutex);
        weights[step].add(trainer, names, plan.mesh, rank);
        if (rank == 0) result.run.losses.push_back(done.loss);
      }
      if (step != 3) continue;
      Evaluation evaluation;
      trainer.evaluate(batches[0], evaluation);
      if (rank == 0) result.run.evaluated = evaluation.loss;
    }
  });
  for (const Gathering& gathered : weights) {
    EXPECT_EQ(gathered.disagreement(), "");
    result.run.weights.push_back(gathered.whole());
  }
  return result;
}

struct Case {
  const char* name;
  int stages;
  const char* keys;
  std::vector<std::string> settings;
  Delay delay;
};

Delay of_pipedream(int stages) {
  return [=](int stage) { return stages - 1 - stage; };
}
Delay always(int64_t steps) {
  return [=](int) { return steps; };
}

std::vector<Case> cases() {
  const std::vector<std::string> llama = {"model.family=llama", "train.batch=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), llama.begin(), llama.end());
    return more;
  };
  return {
      {"pipedream_2", 2, R"("pipedream")", llama, of_pipedream(2)},
      {"pipedream_3", 3, R"("pipedream")", llama, of_pipedream(3)},
      {"pipedream_4", 4, R"("pipedream")", llama, of_pipedream(4)},
      {"pipedream_4_vertical", 4, R"("pipedream", "vertical_sync": true)", llama, always(3)},
      {"pipedream_3_recompute", 3, R"("pipedream", "recompute": "full")", llama, of_pipedream(3)},
      {"pipedream_3_dropout", 3, R"("pipedream")", with({"model.dropout=0.2"}), of_pipedream(3)},
      {"pipedream_2_bf16", 2, R"("pipedream")", with({"train.precision=bf16"}), of_pipedream(2)},
      {"pipedream_3_half_weights", 3, R"("pipedream")",
       with({"train.precision=bf16", "train.weight_precision=bf16", "train.gradient_precision=bf16"}),
       of_pipedream(3)},
      {"2bw_2", 2, R"("2bw")", with({"train.accumulate=2"}), always(1)},
      {"2bw_3", 3, R"("2bw")", {"model.family=llama", "train.batch=12", "train.accumulate=6"}, always(1)},
      {"2bw_4", 4, R"("2bw")", with({"train.accumulate=4"}), always(1)},
      {"2bw_2_lstm", 2, R"("2bw")", {"model.family=lstm", "train.batch=4", "train.accumulate=4"}, always(1)},
      {"pipedream_2_lamb", 2, R"("pipedream")", with({"optim.kind=lamb"}), of_pipedream(2)},
  };
}

class Asynchronous : public testing::TestWithParam<Case> {};

TEST_P(Asynchronous, ComputesWithTheWeightsOfItsTime) {
  const Case& param = GetParam();
  const Training training = stages_training(param.settings);
  const PlanRun found = run_of(
      training,
      parse_plan(fmt::format(R"({{"mesh": "pipe:{}", "schedule": {}}})", param.stages, param.keys), "plan"));
  const Course expected = delayed_run(training, found.stage_of, param.delay);
  EXPECT_EQ(found.run.losses, expected.losses);
  EXPECT_EQ(found.run.evaluated, expected.evaluated);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const auto& [name, values] : expected.weights[step + 1])
      EXPECT_TRUE(same(found.run.weights[step].at(name), values)) << name << " after step " << step + 1;
  }
  // Or a rank that delays nothing would do as well.
  EXPECT_NE(expected.losses, delayed_run(training, found.stage_of, always(0)).losses);
}

INSTANTIATE_TEST_SUITE_P(Cases, Asynchronous, testing::ValuesIn(cases()),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(AsynchronousPipelines, KeepAsManyVersionsAsAreUnderWay) {
  const Training training = stages_training({"model.family=llama", "train.batch=4"});
  const PlanRun found =
      run_of(training, parse_plan(R"({"mesh": "pipe:4", "schedule": "pipedream"})", "plan"));
  for (int stage = 0; stage < 4; ++stage) {
    // Backward passes do not read the embedding.
    const size_t unread = stage == 0 ? 16 * 8 * sizeof(float) : 0;
    EXPECT_EQ(found.kept_bytes[stage], static_cast<size_t>(3 - stage) * (found.weight_bytes[stage] - unread))
        << stage;
  }
  const Training several = stages_training({"model.family=llama", "train.batch=4", "train.accumulate=4"});
  const PlanRun two = run_of(several, parse_plan(R"({"mesh": "pipe:4", "schedule": "2bw"})", "plan"));
  for (int stage = 0; stage < 4; ++stage) EXPECT_EQ(two.kept_bytes[stage], two.weight_bytes[stage]) << stage;
}

// Replicas of a stage add up gradients as elsewhere.
TEST(AsynchronousPipelines, GoWithReplicasTensorPartsAndZero) {
  for (const char* plan_text :
       {R"({"mesh": "data:2 pipe:2", "schedule": "pipedream"})",
        R"({"mesh": "pipe:2 data:2", "schedule": "2bw", "accumulate": 2, "preset": "zero1"})",
        R"({"mesh": "pipe:2 data:2", "schedule": "2bw", "accumulate": 2, "preset": "zero3"})",
        R"({"mesh": "pipe:2 tensor:2", "schedule": "pipedream", "preset": "megatron+sequence"})"}) {
    const Plan plan = parse_plan(plan_text, "plan");
    const bool two = *plan.schedule == "2bw";
    const Training training = stages_training(
        {"model.family=llama", "train.batch=4", fmt::format("train.accumulate={}", two ? 2 : 1)});
    const PlanRun found = run_of(training, plan);
    const Course expected = delayed_run(training, found.stage_of, two ? always(1) : of_pipedream(2));
    for (int64_t step = 0; step < kSteps; ++step)
      EXPECT_NEAR(found.run.losses[step], expected.losses[step], 2e-5) << plan_text << " step " << step;
    for (const auto& [name, values] : expected.weights.back()) {
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(found.run.weights.back().at(name)[i], values[i], 2e-3) << plan_text << ' ' << name << i;
    }
  }
}

std::vector<Program> programs_of(const Training& training, const Plan& plan) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::vector<Program> programs;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank)
    programs.push_back(step_program(training.model, training.train, training.optim, training.shape, *device,
                                    {plan, rank, nullptr}));
  return programs;
}

TEST(AsynchronousPipelines, HaveProgramsThatVerifyAndCanBeRead) {
  const auto complaint = [](std::vector<Program> programs, const auto& spoil) {
    spoil(programs);
    return error_of([&] { verify(programs); });
  };
  for (const auto& [keys, accumulate] :
       {std::pair(R"("pipedream")", 1), std::pair(R"("pipedream", "vertical_sync": true)", 1),
        std::pair(R"("2bw")", 4), std::pair(R"("2bw")", 6)}) {
    const Training training = stages_training(
        {"model.family=llama", "train.batch=12", fmt::format("train.accumulate={}", accumulate)});
    const Plan plan = parse_plan(fmt::format(R"({{"mesh": "pipe:4", "schedule": {}}})", keys), "plan");
    const std::vector<Program> programs = programs_of(training, plan);
    verify(programs);
    for (const Program& program : programs)
      EXPECT_EQ(print(parse_program(print(program), ops())), print(program));
    const auto list = [](Program& program, const When& when) -> std::vector<Action>& {
      return std::ranges::find(program.lists, when, &ActionList::when)->actions;
    };
    EXPECT_THAT(complaint(programs, [&](auto& ranks) { list(ranks[0], When::fill()).clear(); }),
                HasSubstr("before anything made it"));
    EXPECT_NE(complaint(programs, [&](auto& ranks) { list(ranks[3], When::fill()).clear(); }), "");
    EXPECT_THAT(complaint(programs,
                          [&](auto& ranks) {
                            for (State& state : ranks[1].states) {
                              if (state.role == Role::kStash) state.slots = 1;
                            }
                          }),
                HasSubstr("too few"));
    EXPECT_THAT(complaint(programs,
                          [&](auto& ranks) {
                            std::vector<Action>& step = list(ranks[2], When::step());
                            step.erase(std::ranges::find(step, Action::Kind::kSend, &Action::kind));
                          }),
                HasSubstr("from rank"));
  }
}

TEST(AsynchronousPipelines, RefuseWhatStagesWouldHaveToAgreeOn) {
  const auto refusal = [](std::vector<std::string> settings, const char* plan) {
    return error_of([&] {
      settings.insert(settings.begin(), "train.batch=4");
      programs_of(stages_training(settings), parse_plan(plan, "plan"));
    });
  };
  constexpr const char* kPlan = R"({"mesh": "pipe:2", "schedule": "pipedream"})";
  EXPECT_THAT(refusal({"model.family=gpt"}, kPlan), HasSubstr("a tied head"));
  EXPECT_THAT(refusal({"model.family=llama", "train.precision=f16"}, kPlan), HasSubstr("loss scale"));
  EXPECT_THAT(refusal({"model.family=llama", "train.accumulate=2"}, kPlan),
              HasSubstr("so that a step has one"));
  Training training = stages_training({"model.family=llama", "train.batch=4"});
  training.train.clip_norm = 1;
  EXPECT_THAT(error_of([&] { programs_of(training, parse_plan(kPlan, "plan")); }),
              HasSubstr("set train.clip_norm=0"));
  const Plan plan = parse_plan(kPlan, "plan");
  Reference reference(stages_training({"model.family=llama", "train.batch=4"}));
  EXPECT_THAT(verify(reference, plan).reason, HasSubstr("asynchronous"));
}

}  // namespace
}  // namespace trireme::parity

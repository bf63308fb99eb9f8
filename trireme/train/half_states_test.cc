// 16-bit weights beside f32 masters, and 16-bit gradients: the same bits as with f32 states wherever nothing
// else is rounded, the bytes that the formulas say, and checkpoints that do not tell which it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "trireme/comm/context.h"
#include "trireme/optim/update.h"
#include "trireme/run/config.h"
#include "trireme/run/random_case.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/parity/states.h"
#include "trireme/train/parity/verify.h"
#include "trireme/train/rank_states.h"
#include "trireme/train/state_reach.h"
#include "trireme/train/tensor_access.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr int64_t kSteps = 4;

struct Family {
  std::string name;
  Words settings;
  Shape sample;
};
const Family kGpt{"gpt",
                  {"model.family=gpt", "model.layers=2", "model.heads=2", "model.hidden=16", "model.vocab=24",
                   "model.seq=8", "train.batch=4"},
                  {8}};
const Family kResnet{
    "resnet", {"model.family=resnet", "model.layers=8", "model.classes=5", "train.batch=4"}, {3, 8, 8}};
const Family kLstm{"lstm",
                   {"model.family=lstm", "model.layers=2", "model.hidden=12", "model.vocab=20", "model.seq=5",
                    "train.batch=4"},
                   {5}};

parity::Training training_of(const Family& family, const Words& more) {
  Words settings = family.settings;
  settings.insert(settings.end(), {"data.path=none", "optim.lr=0.01"});
  settings.insert(settings.end(), more.begin(), more.end());
  return parity::random_training(resolve_config({.command_line = settings}).config, family.sample, kSteps);
}

// All that lasts, by its name in checkpoints.
parity::States saved_states(Trainer& trainer) {
  parity::States states;
  for (const State& slot : trainer.program().states) {
    if (is_lasting(slot.role) && !has_master(slot.role, slot.type))
      states[saved_name(slot.name, slot.role, slot.attrs)] = read_numbers(trainer.executor(), slot);
  }
  return states;
}

struct Trained {
  std::vector<double> losses;
  parity::States states;
  Evaluation evaluation;
};

void train(Trainer& trainer, parity::Training& training, int64_t from, int64_t to, Trained& run) {
  for (int64_t step = from; step < to; ++step)
    run.losses.push_back(trainer.step(training.batches[step], step, training.rates[step]).loss);
}

Trained run_of(parity::Training training) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(training.model, training.train, training.optim, training.shape, *device);
  trainer.initialise(3);
  Trained run;
  train(trainer, training, 0, kSteps, run);
  run.states = saved_states(trainer);
  trainer.evaluate(training.batches[0], run.evaluation);
  return run;
}

void expect_same_bits(const Trained& found, const Trained& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.evaluation.loss, expected.evaluation.loss);
  ASSERT_EQ(found.states.size(), expected.states.size());
  for (const auto& [name, values] : expected.states)
    EXPECT_TRUE(parity::same(values, found.states.at(name))) << name;
}

Words with_weights(const std::string& format) {
  return {"train.precision=" + format, "train.weight_precision=" + format};
}
Words with_gradients(const std::string& format) {
  Words words = with_weights(format);
  words.push_back("train.gradient_precision=" + format);
  return words;
}
Words both(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Weights are rounded once a step instead of wherever they are read: nothing else changes.
TEST(HalfStates, WeightsIn16BitsChangeNoBits) {
  for (const Family& family : {kGpt, kResnet, kLstm}) {
    for (const std::string format : {"bf16", "f16"}) {
      for (const Words& more : {Words{}, Words{"train.accumulate=2"}, Words{"train.shards=2"}}) {
        if (family.name == "resnet" && !more.empty()) continue;  // other statistics
        SCOPED_TRACE(family.name + " " + format + (more.empty() ? "" : " " + more[0]));
        expect_same_bits(run_of(training_of(family, both(with_weights(format), more))),
                         run_of(training_of(family, both({"train.precision=" + format}, more))));
      }
    }
  }
}

TEST(HalfStates, WeightsIn16BitsChangeNoBitsUnderAnyOptimizer) {
  for (const std::string kind : {"sgd", "momentum", "nesterov", "adam", "lars", "lamb"}) {
    SCOPED_TRACE(kind);
    const Words more = {"optim.kind=" + kind};
    const Trained expected = run_of(training_of(kGpt, both({"train.precision=bf16"}, more)));
    expect_same_bits(run_of(training_of(kGpt, both(with_weights("bf16"), more))), expected);
    expect_same_bits(run_of(training_of(kGpt, both(with_gradients("bf16"), more))), expected);
  }
}

// The gradient of one microbatch on one rank is in 16 bits before it is widened.
TEST(HalfStates, GradientsOfOneMicrobatchIn16BitsChangeNoBits) {
  for (const Family& family : {kGpt, kResnet, kLstm}) {
    for (const std::string format : {"bf16", "f16"}) {
      SCOPED_TRACE(family.name + " " + format);
      expect_same_bits(run_of(training_of(family, with_gradients(format))),
                       run_of(training_of(family, {"train.precision=" + format})));
    }
  }
}

// Added up in 16 bits they are rounded, which is what one asks for.
TEST(HalfStates, GradientsOfSeveralMicrobatchesAreRounded) {
  const Words more = {"train.accumulate=4"};
  const Trained wide = run_of(training_of(kGpt, both(with_weights("bf16"), more))),
                half = run_of(training_of(kGpt, both(with_gradients("bf16"), more)));
  EXPECT_NE(half.losses, wide.losses);
  for (int64_t step = 0; step < kSteps; ++step) EXPECT_NEAR(half.losses[step], wide.losses[step], 0.02);
}

TEST(HalfStates, AWeightIsItsMasterRounded) {
  parity::Training training = training_of(kGpt, with_gradients("bf16"));
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(training.model, training.train, training.optim, training.shape, *device);
  trainer.initialise(3);
  Trained run;
  for (const int64_t steps : {0, 1, 2}) {
    if (steps > 0) train(trainer, training, steps - 1, steps, run);
    int64_t weights = 0;
    for (const State& slot : trainer.program().states) {
      if (slot.role != Role::kMaster) continue;
      ++weights;
      const State& weight = *trainer.program().find_state(slot.attrs.text("of"));
      EXPECT_EQ(weight.type, (TensorType{DType::bf16, slot.type.shape}));
      std::vector<float> expected = read_numbers(trainer.executor(), slot);
      for (float& value : expected) value = static_cast<float>(Bf16(value));
      EXPECT_EQ(read_numbers(trainer.executor(), weight), expected) << weight.name;
    }
    EXPECT_EQ(weights, std::ssize(parameter_names(trainer)));
  }
}

// 2 + 2 + 12 bytes a parameter, of which ZeRO splits one after the other: to the byte, where all divides.
TEST(HalfStates, TakeTheBytesOfTheFormulas) {
  Words settings = with_gradients("bf16");
  settings.push_back("train.accumulate=2");  // with one microbatch zero1 and zero2 split all
  const parity::Training training = training_of(kGpt, settings);
  const std::vector<std::pair<std::string, int64_t>> bytes_a_parameter = {
      {"data", 2 + 2 + 12}, {"zero1", 2 + 2 + 6}, {"zero2", 2 + 1 + 6}, {"zero3", 1 + 1 + 6}};
  const std::unique_ptr<Device> device = make_cpu_device(1);
  for (const auto& [preset, expected] : bytes_a_parameter) {
    const Plan plan = parse_plan(R"({"mesh":"data:2","preset":")" + preset + R"("})", "the plan");
    const Program program =
        step_program(training.model, training.train, training.optim, training.shape, *device, {plan, 0});
    int64_t bytes = 0;
    for (const State& state : program.states) {
      if (state.attrs.has("of") || state.role == Role::kParameter)
        bytes += static_cast<int64_t>(state.type.bytes());
    }
    EXPECT_EQ(bytes, expected * program.parameters) << preset;
  }
}

// Half the bytes of what zero1 gathers, and of what the ranks add up.
TEST(HalfStates, MoveHalfTheBytes) {
  const auto gathered = [&](Words settings, const std::string& preset) {
    settings.push_back("train.accumulate=2");  // with one microbatch casts of weights are gathered
    const parity::Training training = training_of(kGpt, settings);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const Plan plan = parse_plan(R"({"mesh":"data:2","preset":")" + preset + R"("})", "the plan");
    const Program program =
        step_program(training.model, training.train, training.optim, training.shape, *device, {plan, 0});
    double bytes = 0;
    for (const Segment& segment : program.segments) {
      if (segment.kind == SegmentKind::kEvaluate) continue;
      for (const Node& node : segment.graph.nodes)
        bytes += bytes_sent(*node.op, segment.graph.types_of(node.inputs),
                            segment.graph.types_of(node.outputs), node.attrs);
    }
    return bytes;
  };
  constexpr double kScalars = 256;  // loss, count, norm
  const double wide = gathered({"train.precision=bf16"}, "zero1");
  EXPECT_NEAR(gathered(with_weights("bf16"), "zero1"), 0.75 * wide, kScalars);
  EXPECT_NEAR(gathered(with_gradients("bf16"), "zero1"), 0.5 * wide, kScalars);
}

TEST(HalfStates, EveryPlanIsAsOneRank) {
  const Words plans = {R"({"mesh":"data:2"})",
                       R"({"mesh":"data:2","preset":"zero1"})",
                       R"({"mesh":"data:2","preset":"zero2"})",
                       R"({"mesh":"data:2","preset":"zero3"})",
                       R"({"mesh":"tensor:2","preset":"megatron"})",
                       R"({"mesh":"data:2 tensor:2","preset":"zero1+megatron+sequence"})",
                       R"({"mesh":"pipe:2","schedule":"1f1b"})",
                       R"({"mesh":"pipe:2 data:2","preset":"zero1","schedule":"gpipe"})"};
  for (const Words& precisions : {with_weights("bf16"), with_gradients("bf16"), with_gradients("f16")}) {
    for (const std::string accumulate : {"1", "2"}) {
      const std::vector<std::string> more = {"train.batch=8", "train.accumulate=" + accumulate};
      parity::Reference reference(training_of(kGpt, both(precisions, more)));
      for (const std::string& plan : plans) {
        const parity::Result result = parity::verify(reference, parse_plan(plan, "the plan"));
        EXPECT_LE(result.verdict, parity::Verdict::kRounding)
            << precisions.back() << " accumulate " << accumulate << " " << plan << ": " << result.reason;
      }
    }
  }
}

class HalfCheckpoints : public testing::Test {
 protected:
  // A run of steps [from, to) on `plan`, from a checkpoint where there is one, and a checkpoint at its end.
  Trained part(const Words& settings, const std::string& plan_text, int64_t from, int64_t to) {
    const Plan plan = parse_plan(plan_text, "the plan");
    Trained run;
    comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
      parity::Training training = training_of(kGpt, settings);
      MeshCommunicator communicator(plan.mesh, context);
      const std::unique_ptr<Device> device = make_cpu_device(1);
      const RankOptions ranks{plan, context.rank(), context.ranks() > 1 ? &communicator : nullptr};
      Trainer trainer(training.model, training.train, training.optim, training.shape, *device, ranks);
      Checkpoints checkpoints(folder_, 2, checkpoint_peers(ranks));
      if (from == 0)
        trainer.initialise(3);
      else
        restore(trainer, *checkpoints.load_latest());
      Trained own;
      train(trainer, training, from, to, own);
      save(checkpoints, {.step = to}, trainer, ranks);
      if (context.rank() == 0) run = std::move(own);
    });
    return run;
  }

  const TempFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(HalfCheckpoints, MoveBetweenPrecisionsOfStates) {
  const Words wide = {"train.precision=bf16"};
  const std::string one = R"({"mesh":"data:1"})";
  const Trained expected = run_of(training_of(kGpt, wide));
  for (const auto& [before, after] :
       std::vector<std::pair<Words, Words>>{{with_weights("bf16"), wide},
                                            {wide, with_gradients("bf16")},
                                            {with_gradients("bf16"), with_weights("bf16")}}) {
    fs::remove_all(folder_);
    Trained found = part(before, one, 0, 2);
    const Trained rest = part(after, one, 2, kSteps);
    found.losses.insert(found.losses.end(), rest.losses.begin(), rest.losses.end());
    EXPECT_EQ(found.losses, expected.losses) << before.back() << " then " << after.back();
  }
}

// Under zero1 a rank has a part of each master and all of each weight.
TEST_F(HalfCheckpoints, MoveBetweenPlans) {
  const Words half = with_weights("bf16");
  const std::string zero1 = R"({"mesh":"data:2","preset":"zero1"})",
                    zero3 = R"({"mesh":"data:2","preset":"zero3"})",
                    pipe = R"({"mesh":"pipe:2","schedule":"gpipe"})";
  const Trained expected = run_of(training_of(kGpt, {"train.precision=bf16"}));
  for (const std::string& plan : {zero1, zero3, pipe}) {
    fs::remove_all(folder_);
    Trained found = part(half, plan, 0, 2);
    for (const auto& [next, from] :
         {std::pair(R"({"mesh":"data:1"})", int64_t{2}), std::pair(plan.c_str(), int64_t{3})}) {
      const Trained rest = part(half, next, from, from + 1);
      found.losses.insert(found.losses.end(), rest.losses.begin(), rest.losses.end());
    }
    for (int64_t step = 0; step < kSteps; ++step)
      EXPECT_NEAR(found.losses[step], expected.losses[step], 0.01) << plan << step;
  }
}

// The files have the masters, by the names of the weights, in f32.
TEST_F(HalfCheckpoints, HaveMasters) {
  part(with_gradients("bf16"), R"({"mesh":"data:2","preset":"zero1"})", 0, 2);
  const auto found = Checkpoints(folder_, 2).load_latest();
  for (const TensorFiles::Tensor& tensor : found->model.tensors()) {
    EXPECT_EQ(tensor.dtype, DType::f32) << tensor.name;
    EXPECT_THAT(tensor.name, testing::Not(HasSubstr("master")));
  }
}

TEST(HalfStates, WhoWritesAWeightWritesBoth) {
  const parity::Training training = training_of(kGpt, with_weights("bf16"));
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(training.model, training.train, training.optim, training.shape, *device);
  trainer.initialise(3);
  const std::vector<float> values(16, 1.001f);
  write_tensor(trainer, "ln_f.weight", values);
  EXPECT_EQ(read_tensor(trainer, "ln_f.weight"), values);
  EXPECT_EQ(read_numbers(trainer.executor(), *trainer.program().find_state("ln_f.weight"))[0], 1.0f);
}

TEST(HalfStates, WhatDoesNotGoTogetherIsRefused) {
  const auto refusal = [](const TrainOptions& train) { return error_of([&] { half_weights_of(train); }); };
  EXPECT_THAT(refusal({.precision = "f32", .weight_precision = "bf16"}), HasSubstr("train.precision 'f32'"));
  EXPECT_THAT(refusal({.precision = "bf16", .weight_precision = "f16"}), HasSubstr("train.precision 'bf16'"));
  EXPECT_THAT(refusal({.precision = "bf16", .gradient_precision = "bf16"}),
              HasSubstr("train.weight_precision 'f32'"));
  const parity::Training training = training_of(kGpt, with_gradients("bf16"));
  const std::unique_ptr<Device> device = make_cpu_device(1);
  for (const auto& [exchange, setting] : {std::pair("top_k", "gradient"), std::pair("local", "weight")}) {
    const Plan plan = parse_plan(fmt::format(R"({{"mesh":"data:2","exchange":"{}"}})", exchange), "the plan");
    EXPECT_THAT(
        error_of([&] {
          step_program(training.model, training.train, training.optim, training.shape, *device, {plan, 0});
        }),
        HasSubstr(fmt::format("train.{}_precision in 16 bits", setting)));
  }
}

}  // namespace
}  // namespace trireme

// A plan changes who computes what, not what is computed: ranks as threads against one rank, on the models
// and settings of the goldens (targets that do not count, label smoothing, clipping, every optimizer). The
// table of docs/parity.md is made by the same engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "trireme/base/error.h"
#include "trireme/comm/context.h"
#include "trireme/ops/table.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"
#include "trireme/run/random_case.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/parity/verify.h"

namespace trireme::parity {
namespace {

struct PlanCase {
  std::string golden, precision;
  std::vector<Plan> plans;
};
std::ostream& operator<<(std::ostream& out, const PlanCase& c) {
  return out << c.golden << " in " << c.precision;
}

Training plan_training(const PlanCase& one) {
  const Golden golden = read_golden(one.golden);
  Training training{golden.model, golden.train, golden.optim, golden.shape, {}, {}};
  training.train.precision = one.precision;
  for (int64_t step = 0; step < 2; ++step) {
    training.batches.push_back(make_batch(golden, step));
    training.rates.push_back(golden.rates[step]);
  }
  return training;
}

class PlanAgainstOneRank : public testing::TestWithParam<PlanCase> {};

TEST_P(PlanAgainstOneRank, DiffersByRoundingAlone) {
  Reference reference(plan_training(GetParam()));
  for (const Plan& plan : GetParam().plans) {
    const Result result = verify(reference, plan);
    EXPECT_EQ(result.verdict, Verdict::kRounding)
        << plan.preset << " on " << to_string(plan.mesh) << ": " << result.reason;
  }
}

void expect_text_form(const Training& training, const Plan& plan) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const std::string text = print(
        step_program(training.model, training.train, training.optim, training.shape, *device, {plan, rank}));
    EXPECT_EQ(print(parse_program(text, ops())), text) << plan.preset << " on " << to_string(plan.mesh);
  }
}

TEST_P(PlanAgainstOneRank, HasProgramsWithATextForm) {
  const Training training = plan_training(GetParam());
  for (const Plan& plan : GetParam().plans) expect_text_form(training, plan);
}

Plan plan_on(const std::string& preset, const std::string& mesh) {
  return {.mesh = parse_mesh(mesh), .preset = preset};
}

// Virtual shards are added up in one order, whoever has them.
TEST(Shards, GiveTheSameBits) {
  Training training = plan_training({"gpt", "f32", {}});
  training.train.shards = 4;
  training.shape.rows *= training.train.accumulate;
  ASSERT_EQ(training.shape.rows % 4, 0);
  Reference reference(training);
  const Result result = verify(reference, plan_on("data", "data:2"));
  EXPECT_EQ(result.verdict, Verdict::kEqual) << result.reason << result.worst_tensor;
}

// One rank takes statistics of as many groups of rows.
TEST(LocalBatchNorm, IsThatOfGroups) {
  Training training = plan_training({"resnet20", "f32", {}});
  training.model.options.batch_norm_groups = 2;
  Reference reference(std::move(training));
  Plan local = plan_on("data", "data:2");
  local.batch_norm = Plan::BatchNorm::kLocal;
  EXPECT_EQ(verify(reference, local).verdict, Verdict::kRounding);
}

// Microbatches ascend in every schedule, and numbers that stages tell one another are added up in the order
// of one rank: a pipeline alone changes no bit. But for a tied head, whose gradient is added up in two
// places.
TEST(Pipelines, GiveTheSameBits) {
  const auto with = [](const char* golden, const char* precision) {
    Training training = plan_training({golden, precision, {}});
    // As many microbatches as rows allow; all of them are there already.
    if (training.train.accumulate == 1 && training.shape.rows % 4 == 0) {
      training.train.accumulate = 4;
      training.shape.rows /= 4;
    }
    return training;
  };
  for (const char* precision : {"f32", "bf16"}) {
    for (const char* golden : {"llama", "resnet20", "lstm"}) {
      Reference reference(with(golden, precision));
      for (const char* keys : {R"("pipe:2", "schedule": "gpipe")", R"("pipe:3", "schedule": "1f1b")",
                               R"("pipe:2", "schedule": "zb_h1")", R"("pipe:2", "schedule": "zb_v")"}) {
        const Result result = verify(reference, parse_plan(fmt::format(R"({{"mesh": {}}})", keys), "plan"));
        // ZB-V has four chunks, which smaller models have not.
        if (result.verdict == Verdict::kRefused && result.reason.find("chunks") != std::string::npos)
          continue;
        EXPECT_EQ(result.verdict, Verdict::kEqual)
            << golden << " in " << precision << ", " << keys << ": " << result.reason << result.worst_tensor;
      }
    }
  }
}

// The encoder's result goes to every chunk of the decoder, and the lengths of sources to all chunks; the
// table is read by three of them.
TEST(Pipelines, CutEncodersFromDecoders) {
  // An LSTM has no norms between blocks that a sequence could be split at.
  const std::string by_features = R"("pipe:2 tensor:2", "boundaries": "parts", "preset": )";
  for (const auto& [golden, preset] :
       {std::pair("seq2seq", R"("megatron+sequence")"), std::pair("lstm_seq2seq", R"("megatron")")}) {
    for (const char* precision : {"f32", "bf16"}) {
      Training training = plan_training({golden, precision, {}});
      training.train.accumulate = 3;
      training.shape.rows /= 3;
      Reference reference(std::move(training));
      for (const std::string& keys :
           {std::string(R"("pipe:2", "schedule": "gpipe")"),
            std::string(R"("pipe:3", "schedule": "1f1b", "recompute": "full")"),
            std::string(R"("pipe:4", "schedule": "zb_h1")"), std::string(R"("pipe:2", "schedule": "zb_v")"),
            std::string(R"("pipe:2 data:2", "preset": "zero1")"), by_features + preset}) {
        const Result result = verify(reference, parse_plan(fmt::format(R"({{"mesh": {}}})", keys), "plan"));
        EXPECT_LE(result.verdict, Verdict::kRounding)
            << golden << " in " << precision << ", " << keys << ": " << result.reason;
      }
    }
  }
}

TEST(Pipelines, GoWithTheOtherAxes) {
  for (const char* golden : {"gpt", "llama"}) {
    Training training = plan_training({golden, "f32", {}});
    Reference reference(std::move(training));
    for (const char* keys :
         {R"("pipe:2 data:2", "preset": "zero1")", R"("data:2 pipe:2", "preset": "zero3")",
          R"("pipe:2 tensor:2", "preset": "megatron+sequence", "schedule": "gpipe")",
          R"("pipe:2 data:2 tensor:2", "preset": "megatron+zero2", "schedule": "zb_h1")"}) {
      const Result result = verify(reference, parse_plan(fmt::format(R"({{"mesh": {}}})", keys), "plan"));
      EXPECT_EQ(result.verdict, Verdict::kRounding) << golden << ", " << keys << ": " << result.reason;
    }
  }
}

// Of all ranks in a step.
double bytes_in_messages(const Training& training, const Plan& plan) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  double bytes = 0;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const Program program =
        step_program(training.model, training.train, training.optim, training.shape, *device, {plan, rank});
    for (const Action& action : program.list(When::step()).actions) {
      if (action.kind == Action::Kind::kSend)
        bytes += static_cast<double>(program.find_state(action.what)->type.bytes());
    }
  }
  return bytes;
}

// With Megatron's layouts an activation of n bytes goes forward as addends and as their sum, its gradient
// goes back: 3n, in parts 2 · n/2. With sequence parallelism it goes forward as n/2, and back as n/2 and
// gathered: 2n, in parts 2 · n/2.
TEST(Pipelines, SendLessWhereBoundariesGoInParts) {
  for (const char* golden : {"gpt", "llama"}) {
    for (const char* precision : {"f32", "bf16"}) {
      Training training = plan_training({golden, precision, {}});
      training.train.accumulate = 2;
      training.shape.rows /= 2;
      Reference reference(training);
      for (const auto& [keys, share] :
           {std::pair(R"("pipe:2 tensor:2", "preset": "megatron")", 1.0 / 3),
            std::pair(R"("pipe:2 tensor:2", "preset": "megatron", "schedule": "zb_h1", "recompute": "full")",
                      1.0 / 3),
            std::pair(R"("tensor:2 pipe:2", "preset": "megatron+sequence", "schedule": "gpipe")", 0.5),
            std::pair(R"("pipe:2 data:2 tensor:2", "preset": "megatron+zero2")", 1.0 / 3)}) {
        const Plan whole = parse_plan(fmt::format(R"({{"mesh": {}}})", keys), "plan");
        const Plan parts = parse_plan(fmt::format(R"({{"mesh": {}, "boundaries": "parts"}})", keys), "plan");
        const Result found = verify(reference, parts);
        EXPECT_EQ(found.verdict, Verdict::kRounding) << golden << ", " << keys << ": " << found.reason;
        if (std::string_view(golden) == "gpt") continue;  // a tied head's gradients are messages too
        EXPECT_NEAR(bytes_in_messages(training, parts) / bytes_in_messages(training, whole), share, 1e-9)
            << keys;
      }
    }
  }
}

// Ranks that have more rows than others cut what they send alike.
TEST(Pipelines, SendPartsOfUnevenRows) {
  for (const char* plan :
       {R"({"mesh":"pipe:2 tensor:2 data:2","preset":"megatron","schedule":"zb_v","boundaries":"parts",)"
        R"("layouts":{"model.layers.0.input_layernorm.weight":"data:0"}})",
        R"({"mesh":"data:2 pipe:2 tensor:2","preset":"zero2+megatron","boundaries":"parts"})"}) {
    RandomCase uneven;
    uneven.plan = plan;
    uneven.settings = {"model.family=llama", "model.layers=1",   "model.heads=3",
                       "model.hidden=6",     "model.kv_heads=3", "model.vocab=31",
                       "model.seq=3",        "train.batch=7",    "train.seed=352"};
    const Result result = verify_case(uneven);
    EXPECT_EQ(result.verdict, Verdict::kRounding) << plan << ": " << result.reason;
  }
}

// Two stages add up each gradient, and a tied head's is added up by four.
TEST(Pipelines, InBothDirectionsDifferByRounding) {
  for (const char* golden : {"gpt", "lstm"}) {
    Training training = plan_training({golden, "f32", {}});
    training.train.accumulate = 2;
    training.shape.rows /= 2;
    Reference reference(std::move(training));
    for (const char* mesh : {"pipe:2", "pipe:2 data:2"}) {
      const Result result = verify(
          reference, parse_plan(fmt::format(R"({{"mesh": "{}", "schedule": "chimera"}})", mesh), "plan"));
      EXPECT_LE(result.verdict, Verdict::kRounding) << golden << ", " << mesh << ": " << result.reason;
    }
  }
  Training training = plan_training({"resnet20", "f32", {}});
  training.train.accumulate = 2;
  training.shape.rows /= 2;
  Reference reference(std::move(training));
  const Result result = verify(reference, parse_plan(R"({"mesh": "pipe:2", "schedule": "chimera"})", "plan"));
  EXPECT_EQ(result.verdict, Verdict::kRefused);
  EXPECT_THAT(result.reason,
              testing::HasSubstr("every microbatch renews running statistics from what the one before left"));
}

// Both stages have a norm's gain where the layout of the embedding has one gather for the other, and add up
// its gradient over `data` for themselves: to the same bits, also by algorithms that add in an order of their
// own at each place of a vector.
TEST(Pipelines, AgreeOnWeightsThatSeveralStagesHave) {
  Reference reference(plan_training({"llama", "f32", {}}));
  const Result result = verify(reference, parse_plan(R"({"mesh": "pipe:2 data:3", "algorithm": "ring",
      "stages": ["model.layers.0"], "layouts": {"model.embed_tokens.weight": "data:1"}})",
                                                     "plan"));
  EXPECT_EQ(std::string(name(result.verdict)), "rounding") << result.reason;
}

// Moments in files instead of memory: the same nodes on the same numbers, so that no bit differs from the
// plan without; of one rank, and of a pipeline alone, none from one rank.
TEST(Offload, ChangesNoBit) {
  const std::string offload =
      fmt::format(R"("offload": {{"optimizer": "file", "folder": "{}"}})", testing::TempDir());
  for (const char* golden : {"llama", "gpt_lamb", "resnet20"}) {
    Reference reference(plan_training({golden, "f32", {}}));
    const auto verdict = [&](std::string_view keys) {
      const Result result =
          verify(reference, parse_plan(fmt::format(R"({{"mesh": {}, {}}})", keys, offload), "plan"));
      return std::string(name(result.verdict)) + result.reason;
    };
    EXPECT_EQ(verdict(R"("data:1")"), "equal") << golden;
    EXPECT_EQ(verdict(R"("data:2", "preset": "zero1")"), "rounding") << golden;
    if (golden != std::string_view("gpt_lamb")) {
      EXPECT_EQ(verdict(R"("pipe:2")"), "equal") << golden;  // a tied head is added up in two places
    }
  }
}

// Weights and gradients too: the model is computed unit by unit, as a pipeline's stages do.
TEST(Offload, OfWeightsAndGradientsChangesNoBitOfOneRankUnlessWeightsAreTied) {
  const auto verdict = [&](const char* golden, std::string_view keys, std::string_view what, int accumulate) {
    Training training = plan_training({golden, "f32", {}});
    training.train.accumulate = accumulate;
    training.shape.rows /= accumulate;
    Reference reference(std::move(training));
    const Result result = verify(
        reference,
        parse_plan(fmt::format(R"({{"mesh": {}, "offload": {{"optimizer": "file", {}, "folder": "{}"}}}})",
                               keys, what, testing::TempDir()),
                   "plan"));
    return std::string(name(result.verdict)) + result.reason;
  };
  constexpr std::string_view kBoth = R"("weights": "file", "gradients": "file")";
  EXPECT_EQ(verdict("llama", R"("data:1")", kBoth, 1), "equal");
  EXPECT_EQ(verdict("llama", R"("data:1")", kBoth, 2), "equal");
  EXPECT_EQ(verdict("llama", R"("data:1", "recompute": "full")", R"("weights": "file")", 2), "equal");
  EXPECT_EQ(verdict("resnet20", R"("data:1")", R"("gradients": "file")", 2), "equal");
  EXPECT_EQ(verdict("lstm", R"("data:1")", kBoth, 2), "equal");
  // A tied head is added up in two places: of one microbatch as one rank does it, of several in another
  // order.
  EXPECT_EQ(verdict("gpt_lamb", R"("data:1")", kBoth, 1), "equal");
  EXPECT_EQ(verdict("gpt_lamb", R"("data:1")", kBoth, 2), "rounding");
  EXPECT_EQ(verdict("llama", R"("data:2")", kBoth, 2), "rounding");
  EXPECT_EQ(verdict("gpt", R"("data:2", "preset": "zero1")", kBoth, 1), "rounding");
  EXPECT_EQ(verdict("gpt", R"("data:2 tensor:2", "preset": "megatron+zero3")", kBoth, 1), "rounding");
}

class OffloadedPrograms : public testing::TestWithParam<std::string> {};

TEST_P(OffloadedPrograms, AreHeldToTheirOrder) {
  const Training training = plan_training({"gpt", "bf16", {}});
  const Plan plan = parse_plan(fmt::format(R"({{"mesh": "data:2",
      "offload": {{"optimizer": "file", {} "folder": "{}"}}}})",
                                           GetParam(), testing::TempDir()),
                               "plan");
  expect_text_form(training, plan);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const auto without = [&](Action::Kind kind) -> std::string {
    Program program =
        step_program(training.model, training.train, training.optim, training.shape, *device, {plan, 0});
    EXPECT_GT(program.groups.size(), 3u);
    EXPECT_LT(program.staging_bytes(), program.file_bytes());
    std::vector<Action>& step = program.lists[0].actions;
    const auto last =
        std::find_if(step.rbegin(), step.rend(), [&](const Action& action) { return action.kind == kind; });
    step.erase(std::prev(last.base()));
    try {
      trireme::verify(program);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(without(Action::Kind::kFetch), testing::HasSubstr("rest in a file and were not fetched"));
  EXPECT_THAT(without(Action::Kind::kStore), testing::HasSubstr("and does not store it"));
  EXPECT_THAT(without(Action::Kind::kRun), testing::HasSubstr("which nothing in its slot has renewed"));
}
INSTANTIATE_TEST_SUITE_P(Offload, OffloadedPrograms,
                         testing::Values("", R"("weights": "file", "gradients": "file",)"));

// On every rank, of every stage.
TEST(Pipelines, UseTheMemoryThatWasPlanned) {
  Training training = plan_training({"gpt", "f32", {}});
  training.train.accumulate = 2;
  training.shape.rows /= 2;
  for (const char* keys :
       {R"("pipe:2 data:2", "preset": "zero1")", R"("pipe:3", "schedule": "zb_h1", "recompute": "full")",
        R"("pipe:2", "schedule": "chimera")", R"("pipe:2", "schedule": "gpipe")",
        R"("pipe:2", "schedule": "interleaved")", R"("pipe:2", "schedule": "zb_h2")",
        R"("pipe:2", "schedule": "zb_v")"}) {
    const Plan plan = parse_plan(fmt::format(R"({{"mesh": {}}})", keys), "plan");
    comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
      MeshCommunicator communicator(plan.mesh, context);
      const std::unique_ptr<Device> device = make_cpu_device(1);
      const Executor executor(step_program(training.model, training.train, training.optim, training.shape,
                                           *device, {plan, context.rank()}),
                              *device, &communicator);
      EXPECT_EQ(executor.allocated_bytes(), executor.program().peak_bytes())
          << keys << ", rank " << context.rank();
    });
  }
}

TEST(Pipelines, HaveProgramsWithATextForm) {
  Training training = plan_training({"gpt", "bf16", {}});
  training.train.accumulate = 2;
  training.shape.rows /= 2;
  for (const char* json : {R"({"mesh": "pipe:2", "schedule": "zb_h1", "recompute": "full"})",
                           R"({"mesh": "pipe:2", "schedule": "chimera"})",
                           R"({"mesh": "pipe:2 data:2 tensor:2", "preset": "megatron+sequence+zero1"})"})
    expect_text_form(training, parse_plan(json, "plan"));
}

// Where targets are gathered by ranks, and where layouts of single values lead the sums of gradients
// elsewhere: the pieces of the first microbatch and of the next ones must still hand one another the same.
TEST(Pipelines, GoWithLayoutsThatMoveMuch) {
  const auto expect_rounding = [](const char* golden, const char* keys) {
    Training training = plan_training({golden, "f32", {}});
    training.train.accumulate = 2;
    training.shape.rows /= 2;
    Reference reference(std::move(training));
    const Result result = verify(reference, parse_plan(fmt::format(R"({{"mesh": {}}})", keys), "plan"));
    EXPECT_EQ(result.verdict, Verdict::kRounding) << golden << ", " << keys << ": " << result.reason;
  };
  expect_rounding("lenet", R"("pipe:2 tensor:2", "preset": "hybrid_cnn")");
  expect_rounding("lenet", R"("data:2 pipe:2", "schedule": "1f1b", "layouts": {"conv2.weight": "data:1"})");
  expect_rounding("lenet",
                  R"("data:2 pipe:2", "schedule": "zb_v", "layouts": {"conv2/max_pool2d": "data:1"})");
  expect_rounding("gpt", R"("data:2 pipe:2", "schedule": "zb_h1", "layouts": {"wpe.weight": "data:0"})");
}

// Over a preset, over none, and along an axis that no preset knows.
TEST(LayoutsOfSingleValues, DifferByRoundingAlone) {
  const auto verdict = [](const char* golden, std::string_view json) {
    Reference reference(plan_training({golden, "f32", {}}));
    const Result result = verify(reference, parse_plan(json, "plan"));
    return std::string(name(result.verdict)) + result.reason;
  };
  EXPECT_EQ(verdict("gpt", R"({"mesh": "tensor:2", "preset": "megatron",
                               "layouts": {"h.0.*": "", "wte.weight": "tensor:1"}})"),
            "rounding");
  // Positions over one axis and samples over the other, in rows that have both, in either order of the mesh.
  for (const char* mesh : {"tensor:2 data:2", "data:2 tensor:2"}) {
    EXPECT_EQ(
        verdict("gpt", fmt::format(R"({{"mesh": "{}", "layouts": {{"wpe.weight": "tensor:0"}}}})", mesh)),
        "rounding");
  }
  EXPECT_EQ(verdict("mlp", R"({"mesh": "data:2 rows:2", "preset": "zero1",
                               "layouts": {"layers.0.weight": "rows:0", "layers.1.weight": "rows:1"}})"),
            "rounding");
}

// Replicas beside data: ZeRO inside, sums between.
TEST(Replicas, DifferByRoundingAlone) {
  for (const char* plan :
       {R"({"mesh": "replica:2 data:2"})", R"({"mesh": "replica:3 data:2", "preset": "zero1"})",
        R"({"mesh": "data:2 replica:2", "preset": "zero2"})",
        R"({"mesh": "replica:2 data:2 tensor:2", "preset": "megatron+sequence+zero3"})",
        R"({"mesh": "replica:2 pipe:2 data:2", "preset": "zero2"})"}) {
    for (const char* accumulate : {"train.accumulate=1", "train.accumulate=3"}) {
      const Result result = verify_case(
          {.settings = {"model.family=gpt", "model.layers=2", "model.heads=2", "model.hidden=10",
                        "model.seq=5", "model.vocab=19", "train.batch=36", "train.clip_norm=0.1", accumulate},
           .plan = plan});
      EXPECT_EQ(result.verdict, Verdict::kRounding) << plan << " " << accumulate << ": " << result.reason;
    }
  }
  const Result norms =
      verify_case({.image = Shape{3, 5, 4},
                   .settings = {"model.family=resnet", "model.layers=8", "model.classes=3", "train.batch=16"},
                   .plan = R"({"mesh": "replica:2 data:2", "preset": "zero1"})"});
  EXPECT_EQ(norms.verdict, Verdict::kRounding) << norms.reason;
}

// Three ranks have parts that are not even. Golden gpts have vocabularies that do not divide.
std::vector<PlanCase> plan_cases() {
  const std::vector<Plan> rows = {plan_on("data", "data:3"), plan_on("zero1", "data:2"),
                                  plan_on("zero2", "data:2"), plan_on("zero3", "data:3")};
  const std::vector<Plan> transformer = {
      plan_on("megatron", "tensor:2"), plan_on("megatron+zero1", "data:2 tensor:2"),
      plan_on("megatron+zero3", "data:2 tensor:2"), plan_on("megatron+sequence", "tensor:2"),
      plan_on("megatron+sequence+zero2", "data:2 tensor:2")};
  const std::vector<Plan> tensor = {plan_on("megatron", "tensor:3"),
                                    plan_on("megatron+zero1", "data:2 tensor:2")};
  const std::vector<Plan> hybrid = {plan_on("hybrid_cnn", "tensor:2"),
                                    plan_on("hybrid_cnn+zero1", "data:2 tensor:2")};
  const auto both = [](std::vector<Plan> plans, const std::vector<Plan>& more) {
    plans.insert(plans.end(), more.begin(), more.end());
    return plans;
  };
  return {{"mlp", "f32", both(rows, tensor)},
          {"lstm", "f32", both(rows, tensor)},
          {"gpt", "f32", both(rows, transformer)},
          {"gpt_ignored", "f32", both(rows, {plan_on("megatron", "tensor:2")})},
          {"gpt_lamb", "f32", both(rows, transformer)},
          {"llama", "f32", both(rows, transformer)},
          {"llama_accumulated",
           "f32",
           {plan_on("data", "data:2"), plan_on("zero2", "data:2"), plan_on("zero3", "data:2")}},
          {"bert", "f32", both({plan_on("zero3", "data:2")}, transformer)},
          {"seq2seq", "f32", both(rows, transformer)},
          {"seq2seq", "bf16", {plan_on("zero2", "data:3"), plan_on("megatron+sequence", "tensor:2 data:2")}},
          {"lstm_seq2seq", "f32", both(rows, tensor)},
          {"swin", "f32", {plan_on("zero1", "data:2"), plan_on("megatron", "tensor:2")}},
          {"alexnet_small", "f32", {plan_on("hybrid_cnn+zero1", "data:2 tensor:2")}},
          {"wide_resnet16", "f32", {plan_on("zero3", "data:2")}},
          {"lenet", "f32", {plan_on("hybrid_cnn", "tensor:3")}},
          {"lenet_lars", "f32", both(rows, hybrid)},
          {"resnet20", "f32", {plan_on("zero3", "data:2"), plan_on("hybrid_cnn+zero1", "data:2 tensor:2")}},
          {"gpt",
           "bf16",
           {plan_on("data", "data:2"), plan_on("zero3", "data:2"), plan_on("megatron", "tensor:2"),
            plan_on("megatron+zero2", "data:2 tensor:2"), plan_on("megatron+sequence", "tensor:2 data:2"),
            plan_on("megatron+sequence", "data:3 tensor:2")}}};
}

INSTANTIATE_TEST_SUITE_P(Cases, PlanAgainstOneRank, testing::ValuesIn(plan_cases()),
                         [](const auto& param) { return param.param.golden + "_" + param.param.precision; });

}  // namespace
}  // namespace trireme::parity

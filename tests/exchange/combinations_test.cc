// Every row of plan/combinations.h is refused, with its reason, by the parts that read plans and settings:
// a plan, a model and settings are made that have both features of the row, and nothing else runs.
#include "trireme/plan/combinations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/error_of.h"
#include "trireme/run/config.h"
#include "trireme/run/random_case.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/features.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

// What has some features: keys of a plan over a mesh of four ranks along data, and settings.
struct Example {
  Json plan = Json::object();
  std::vector<std::string> settings = {};
};

Json offload(const char* what) {
  Json json{{"optimizer", "file"}, {"folder", "/tmp"}};
  if (*what) json[what] = "file";
  return json;
}

const std::vector<std::string> kMixture = {"model.family=gpt", "model.heads=2", "model.seq=8",
                                           "model.vocab=16", "model.moe.experts=4"};

Example example(Feature feature) {
  using enum Feature;
  const auto plan = [](Json keys) { return Example{std::move(keys)}; };
  const auto settings = [](std::vector<std::string> list) {
    return Example{Json::object(), std::move(list)};
  };
  switch (feature) {
    case kPipe:
      return plan({{"mesh", "data:4 pipe:2"}});
    case kOtherAxes:
    case kMegatron:
      return plan({{"mesh", "data:4 tensor:2"}, {"preset", "megatron"}});
    case kSplitTensors:
    case kZero:
      return plan({{"preset", "zero1"}});
    case kLayouts:
      return plan({{"layouts", {{"*.weight", "data:0"}}}});
    case kAsynchronous:
      return {{{"mesh", "data:1 pipe:2"}, {"schedule", "2bw"}}, {"train.accumulate=2"}};
    case kChimera:
      return {{{"mesh", "data:1 pipe:2"}, {"schedule", "chimera"}}, {"train.accumulate=2"}};
    case kOffload:
      return plan({{"offload", offload("")}});
    case kOffloadedModel:
      return plan({{"offload", offload("weights")}});
    case kAlgorithm:
      return plan({{"algorithm", "ring"}});
    case kSynchronisedNorm:
      return plan({{"batch_norm", "synchronised"}});
    case kSharedBatch:
      return {{{"mesh", "data:2 tensor:2"}, {"preset", "hybrid_cnn"}}, {"model.family=lenet"}};
    case kExchange:
      return plan({{"exchange", "top_k"}});
    case kOwnMomentum:
    case kOwnSteps:
      return {{{"exchange", "signum"}}, {"optim.kind=sgd"}};
    case kHostMethod:
      return plan({{"exchange", "pruned_ring"}});
    case kWarmUp:
      return {{{"exchange", {{"method", "dgc"}, {"warmup", 2}}}}, {"optim.kind=sgd"}};
    case kOwnWeights:
      return plan({{"exchange", "local"}});
    case kOwnPace:
      return plan({{"exchange", "ad_psgd"}});
    case kServed:
      return plan({{"exchange", "server"}});
    case kServers:
      return plan({{"exchange", {{"method", "server"}, {"servers", 2}}}});
    case kShards:
      return settings({"train.shards=4"});
    case kF16:
      return settings({"train.precision=f16"});
    case kHalfWeights:
      return settings({"train.precision=bf16", "train.weight_precision=bf16"});
    case kHalfGradients:
      return settings(
          {"train.precision=bf16", "train.weight_precision=bf16", "train.gradient_precision=bf16"});
    case kNoiseScale:
      return settings({"train.noise_scale=true"});
    case kAverages:
      return settings({"train.ema=0.9"});
    case kClipNorm:
      return settings({"train.clip_norm=1"});
    case kBadSteps:
      return settings({"train.on_spike=skip"});
    case kNumbers:
      return settings({"train.numbers_every=2"});
    case kRecheck:
      return settings({"train.recheck_every=2"});
    case kMoments:
      return settings({"optim.kind=adamw"});
    case kCuda:
      return settings({"train.device=cuda"});
    case kRunningStatistics:
      return settings({"model.family=resnet", "model.layers=8"});
    case kConvolutions:
      return settings({"model.family=lenet"});
    case kExperts:
      return settings(kMixture);
    case kExpertAxis:
      return {{{"mesh", "data:2 expert:2"}, {"preset", "expert"}}, kMixture};
    case kReplicas:
      return {{{"mesh", "replica:2 data:2"}}, {}};
    case kContextAxis:
      return {{{"mesh", "data:2 context:2"}, {"preset", "context"}},
              {"model.family=gpt", "model.heads=2", "model.seq=8", "model.vocab=16"}};
    case kStripes:
      return {{{"mesh", "context:2"}, {"preset", "context+striped"}},
              {"model.family=gpt", "model.heads=2", "model.seq=8", "model.vocab=16"}};
    case kOwnSamples:
    case kNccl:
      break;  // of no plan and no setting of a step
  }
  return {};
}

// Of a plan and settings, in the order in which a run asks; features that are of neither are added.
std::string refusal(const Example& what, const Features& besides) {
  return error_of([&] {
    Json plan_json = what.plan;
    if (!plan_json.contains("mesh")) plan_json["mesh"] = "data:4";
    const Plan plan = parse_plan(plan_json.dump(), "plan.json");
    std::vector<std::string> settings = {"model.family=mlp", "model.layers=2", "model.hidden=8",
                                         "model.classes=4",  "train.batch=16", "train.clip_norm=0",
                                         "train.threads=1",  "data.path=none"};
    settings.insert(settings.end(), what.settings.begin(), what.settings.end());
    const Config config = resolve_config({.command_line = settings}).config;
    Features features = features_of(plan, config.train);
    features.insert(besides.begin(), besides.end());
    if (!besides.empty()) check_combinations(features);
    const std::string& family = config.model.family;
    const Shape sample = family == "gpt"   ? Shape{8}
                         : family == "mlp" ? Shape{1, 2, 3}
                                           : Shape{family == "lenet" ? 1 : 3, 28, 28};
    const std::unique_ptr<Device> device = make_cpu_device(1);
    step_program(config.model, config.train, config.optim,
                 {config.train.batch / config.train.accumulate, sample}, *device,
                 {plan, plan.mesh.ranks() - 1});
  });
}

TEST(Combinations, AreAllRefusedWithTheirReasons) {
  for (const Combination& row : combinations()) {
    Example both = example(row.one);
    const Example other = example(row.other);
    Features besides;
    for (const Feature feature : {row.one, row.other}) {
      if (feature == Feature::kNccl || feature == Feature::kOwnSamples) besides.insert(feature);
    }
    for (const auto& [key, value] : other.plan.items()) {
      if (key == "exchange" && both.plan.contains(key)) continue;  // of one kind of exchange that is both
      both.plan[key] = value;
    }
    both.settings.insert(both.settings.end(), other.settings.begin(), other.settings.end());
    EXPECT_THAT(refusal(both, besides), HasSubstr(std::string(row.reason)))
        << name(row.one) << " and " << name(row.other) << ": " << both.plan.dump();
  }
}

// NCCL and samples of one's own are asked for where ranks are linked, and where data is opened.
TEST(Combinations, OfLinksAreRefusedWhereRanksAreLinked) {
  const Plan ring = parse_plan(R"({"mesh": "data:4", "algorithm": "ring"})", "plan.json");
  EXPECT_THAT(error_of([&] { check_links(ring, {}, comm::DeviceLinks::nccl); }),
              HasSubstr("NCCL chooses its own algorithms"));
}

// What one of the features alone asks for is built.
TEST(Combinations, AreAboutPairs) {
  for (int i = 0; i < kFeatures; ++i) {
    const auto feature = static_cast<Feature>(i);
    if (feature == Feature::kCuda || feature == Feature::kAlgorithm || feature == Feature::kLayouts) continue;
    if (feature == Feature::kOtherAxes || feature == Feature::kMegatron || feature == Feature::kContextAxis)
      continue;  // of a transformer
    if (feature == Feature::kServers) continue;
    EXPECT_EQ(refusal(example(feature), {}), "no error") << name(feature);
  }
}

}  // namespace
}  // namespace trireme

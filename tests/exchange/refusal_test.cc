// What can not be exchanged is refused with the reason, before anything runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exchange/ranks.h"
#include "tests/support/error_of.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

std::string refusal(const Plan& plan, const Training& training) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  return error_of([&] {
    step_program(training.model, training.train, training.optim, training.shape, *device, {plan, 0, nullptr});
  });
}
// When the plan is read, or held against the model.
std::string refusal(const char* mesh, const std::string& exchange, const Training& training,
                    const char* preset = "data") {
  const std::string when_read = error_of([&] { plan_of(mesh, exchange, preset); });
  return when_read == "no error" ? refusal(plan_of(mesh, exchange, preset), training) : when_read;
}
std::string refusal(const std::string& exchange) {
  return refusal("data:2", exchange, small_mlp());
}

// Before there is a model to build anything of.
TEST(ExchangeRefusal, OfBadSettingsIsWhenThePlanIsRead) {
  for (const char* exchange :
       {R"({"method": "top_k", "ratio": 0})", R"({"method": "top_k", "ratio": 1.5})",
        R"({"method": "power_sgd", "rank": 0})", R"({"method": "delayed", "delay": -1})",
        R"({"method": "delayed", "delay": 65})", R"({"method": "qsgd", "bit": 4})", R"("gossip")",
        R"([{"method": "top_k", "for": "*"}, {"method": "local"}])"})
    EXPECT_NE(error_of([&] { plan_of("data:2", exchange); }), "no error") << exchange;
}

TEST(ExchangeRefusal, OfNamesThatNoParameterHas) {
  for (const char* exchange :
       {R"({"method": "all_reduce", "for": "nosuch*"})", R"({"method": "top_k", "for": "nosuch*"})",
        R"([{"method": "top_k"}, {"method": "all_reduce", "wire": "bf16", "for": "nosuch*"}])"})
    EXPECT_THAT(refusal(exchange), HasSubstr("no parameter that is called so")) << exchange;
}

TEST(ExchangeRefusal, OfBadSettings) {
  EXPECT_THAT(refusal(R"({"method": "top_k", "ratio": 0})"),
              HasSubstr("ratio = 0; a number above 0, at most 1"));
  EXPECT_THAT(refusal(R"({"method": "top_k", "ratio": 1.5})"), HasSubstr("ratio = 1.5"));
  EXPECT_THAT(refusal(R"({"method": "top_k", "ratoi": 0.5})"), HasSubstr("did you mean 'ratio'"));
  EXPECT_THAT(refusal(R"({"method": "top_k", "ratio": "all"})"), HasSubstr("is a number, not a word"));
  EXPECT_THAT(refusal(R"({"method": "all_reduce", "wire": "f8"})"), HasSubstr("wire = f8"));
  EXPECT_THAT(refusal(R"({"method": "power_sgd", "rank": 0})"), HasSubstr("rank = 0"));
  EXPECT_THAT(refusal(R"({"method": "power_sgd", "rank": 1.5})"), HasSubstr("rank = 1.5; a whole number"));
  EXPECT_THAT(refusal(R"({"method": "power_sgd", "rank": 100, "for": "*"})"),
              HasSubstr("rank 100 is larger than"));
  EXPECT_THAT(refusal(R"({"method": "power_sgd", "rank": 100})"), HasSubstr("of use for no parameter"));
  EXPECT_THAT(refusal(R"({"method": "dgc", "momentum": 1})"), HasSubstr("momentum = 1"));
  EXPECT_THAT(refusal(R"({"method": "dgc", "warmup": -1})"), HasSubstr("warmup = -1"));
  EXPECT_THAT(refusal(R"({"method": "dgc", "warmup": 2.5})"), HasSubstr("warmup = 2.5; a whole number"));
  EXPECT_THAT(refusal(R"({"method": "dgc", "sampled": 1.01})"), HasSubstr("sampled = 1.01"));
  EXPECT_THAT(refusal(R"({"method": "dgc", "ratio": 0})"), HasSubstr("ratio = 0"));
  EXPECT_THAT(refusal(R"({"method": "one_bit_adam", "warmup": 0})"), HasSubstr("warmup = 0"));
  EXPECT_THAT(refusal(R"({"method": "one_bit_adam", "beta2": 1})"), HasSubstr("beta2 = 1"));
  EXPECT_THAT(refusal(R"({"method": "qsgd", "bits": 1})"), HasSubstr("bits = 1"));
  EXPECT_THAT(refusal(R"({"method": "threshold", "threshold": 0})"), HasSubstr("threshold = 0"));
  EXPECT_THAT(refusal(R"({"method": "pruned_ring", "ratio": 0})"), HasSubstr("ratio = 0"));
  EXPECT_THAT(refusal(R"({"method": "top_k", "code": "elias"})"), HasSubstr("code = elias"));
  EXPECT_THAT(refusal(R"({"method": "qsgd", "code": "rice"})"), HasSubstr("code = rice"));
  EXPECT_THAT(refusal(R"({"method": "topk"})"), HasSubstr("did you mean 'top_k'"));
  EXPECT_THAT(refusal(R"({"method": "top_k", "for": "nothing"})"),
              HasSubstr("no parameter that is called so"));
  EXPECT_EQ(refusal(R"({"method": "top_k", "ratio": 1})"), "no error");
}

TEST(ExchangeRefusal, OfBadSettingsOfLocalSteps) {
  EXPECT_THAT(refusal(R"({"method": "local", "steps": 0})"), HasSubstr("steps = 0"));
  EXPECT_THAT(refusal(R"({"method": "fedavg", "steps": 1.5})"), HasSubstr("steps = 1.5; a whole number"));
  EXPECT_THAT(refusal(R"({"method": "fedavg", "fraction": 0})"), HasSubstr("fraction = 0"));
  EXPECT_THAT(refusal(R"({"method": "fedavg", "fraction": 1.5})"), HasSubstr("fraction = 1.5"));
  EXPECT_THAT(refusal(R"({"method": "fedavg", "epochs": -1})"), HasSubstr("epochs = -1"));
  EXPECT_THAT(refusal(R"({"method": "fedavg", "epochs": 1, "steps": 4})"), HasSubstr("one of them expected"));
  EXPECT_THAT(refusal(R"({"method": "delayed", "delay": -1})"), HasSubstr("delay = -1"));
  EXPECT_THAT(refusal(R"({"method": "delayed", "period": 0})"), HasSubstr("period = 0"));
  EXPECT_THAT(refusal(R"({"method": "delayed", "delay": 65})"), HasSubstr("more than 64 sums"));
  EXPECT_THAT(refusal(R"({"method": "diloco", "outer_rate": 0})"), HasSubstr("outer_rate = 0"));
  EXPECT_THAT(refusal(R"({"method": "diloco", "step": 5})"), HasSubstr("did you mean 'steps'"));
  EXPECT_THAT(refusal(R"({"method": "local", "for": "*.weight"})"), HasSubstr("it stands alone"));
  EXPECT_THAT(refusal(R"([{"method": "top_k", "for": "*"}, {"method": "local"}])"),
              HasSubstr("beside other rules"));
  EXPECT_THAT(refusal(R"({"method": "d_psgd", "staleness": -1})"), HasSubstr("staleness = -1"));
  EXPECT_THAT(refusal(R"({"method": "d_psgd", "staleness": 65})"), HasSubstr("staleness = 65"));
  EXPECT_THAT(refusal(R"({"method": "ad_psgd", "staleness": 1})"), HasSubstr("no setting 'staleness'"));
  EXPECT_THAT(refusal(R"({"method": "ad_psgd", "graph": "star"})"), HasSubstr("graph = star"));
  EXPECT_EQ(refusal(R"("local")"), "no error");
}

TEST(ExchangeRefusal, OfWhatDoesNotGoWithLocalSteps) {
  const std::string local = R"({"method": "local", "steps": 4})";
  const Training gpt = small_gpt();
  EXPECT_THAT(refusal(plan_of("data:1", local), gpt), HasSubstr("has not several of them"));
  for (const char* preset : {"zero1", "zero2", "zero3"})
    EXPECT_THAT(refusal("data:2", local, gpt, preset), HasSubstr("splits one set of them over all"));
  EXPECT_THAT(refusal("tensor:2", local, gpt, "megatron"), HasSubstr("has not several of them"));
  EXPECT_EQ(refusal("data:2 tensor:2", local, gpt, "megatron"), "no error");
  EXPECT_EQ(refusal("pipe:2 data:2", local, gpt), "no error");
  EXPECT_THAT(refusal("pipe:2 data:2", R"({"method": "d_psgd", "staleness": 1})", gpt),
              HasSubstr("in orders of their own"));
  Training half = small_mlp();
  half.train.precision = "f16";
  EXPECT_THAT(refusal(plan_of("data:2", local), half), HasSubstr("loss scale"));
  Training noise = small_mlp();
  noise.train.noise_scale = true;
  EXPECT_THAT(refusal(plan_of("data:2", local), noise), HasSubstr("train.noise_scale"));
  Training images = small_resnet();
  EXPECT_EQ(refusal(plan_of("data:2", local), images), "no error");
  images.model.batch_norm_groups = 3;
  EXPECT_THAT(refusal(plan_of("data:2", local), images), HasSubstr("a multiple of 2 is needed"));
  images.model.batch_norm_groups = 1;
  images.shape.rows = 5;
  EXPECT_THAT(refusal(plan_of("data:2", local), images),
              HasSubstr("can not be normalised in 2 equal groups"));
}

TEST(ExchangeRefusal, OfWhatDoesNotGoTogether) {
  const std::string top_k = R"({"method": "top_k", "ratio": 0.1})";
  const Training gpt = small_gpt();
  EXPECT_THAT(refusal(plan_of("data:1", top_k), gpt), HasSubstr("has not several of them"));
  EXPECT_THAT(refusal(plan_of("tensor:2", top_k, "megatron"), gpt), HasSubstr("has not several of them"));
  EXPECT_THAT(refusal("pipe:2 data:2", R"({"method": "dgc", "warmup": 4})", gpt), HasSubstr("early steps"));
  EXPECT_THAT(
      refusal(plan_of("data:2 tensor:2", R"({"method": "top_k", "for": "*.bias"})", "megatron+sequence"),
              gpt),
      HasSubstr("also added up over the axis tensor"));
  Training shards = small_mlp();
  shards.train.shards = 4;
  EXPECT_THAT(refusal(plan_of("data:2", top_k), shards), HasSubstr("train.shards"));
  Training momentum = small_mlp();
  momentum.optim.kind = "momentum";
  EXPECT_THAT(refusal(plan_of("data:2", R"({"method": "dgc"})"), momentum), HasSubstr("momentum of its own"));
  EXPECT_THAT(refusal(plan_of("data:2", R"("one_bit_adam")"), momentum), HasSubstr("momentum of its own"));
  EXPECT_EQ(refusal(plan_of("data:2", R"({"method": "dgc", "momentum": 0})"), momentum), "no error");
  EXPECT_EQ(refusal(plan_of("data:2", top_k), momentum), "no error");
  Training clipped = small_mlp();
  clipped.train.clip_norm = 1;
  EXPECT_THAT(refusal(plan_of("data:2", R"({"method": "signum"})"), clipped), HasSubstr("train.clip_norm=0"));
  EXPECT_THAT(refusal(plan_of("data:2", R"("one_bit_adam")"), clipped), HasSubstr("train.clip_norm=0"));
  Training noise = small_mlp();
  noise.train.noise_scale = true;
  EXPECT_THAT(refusal(plan_of("data:2", top_k), noise), HasSubstr("train.noise_scale"));
  Training device = small_mlp();
  device.train.device = "cuda";
  for (const char* by_host : {R"("atomo")", R"("pruned_ring")", R"({"method": "top_k", "code": "rice"})",
                              R"({"method": "qsgd", "code": "elias"})"})
    EXPECT_THAT(refusal(plan_of("data:4", by_host), device), HasSubstr("kernels for CPUs alone"));
}

}  // namespace
}  // namespace trireme::testing

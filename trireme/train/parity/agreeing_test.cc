// Every way of agreement is held to what its plan says, for all ranks; and one that does something else, be
// it by little, is called a bug.
#include "trireme/train/parity/agreeing.h"

#include <gmock/gmock.h>

#include <functional>
#include <tuple>

#include "trireme/run/config.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/random_case.h"
#include "trireme/train/parity/verify.h"

namespace trireme::parity {
namespace {

Plan plan_with(const std::string& exchange, int ranks) {
  return parse_plan(fmt::format(R"({{"mesh": "data:{}", "exchange": {}}})", ranks, exchange), "the plan");
}

// With programs that something is done to, or those of another plan, where that is given.
using Spoil = std::function<void(Program&)>;
Result verify_mlp(const std::string& exchange, int ranks, const std::string& done = "",
                  const std::string& optimizer = "sgd", const Spoil& spoil = nullptr) {
  ResolvedConfig config =
      resolve_config({.command_line = {"model.family=mlp", "model.layers=2", "model.hidden=17",
                                       "model.classes=4", "train.batch=15", "train.clip_norm=0",
                                       "optim.kind=" + optimizer, "optim.lr=0.05", "data.path=none"}});
  const Plan plan = plan_with(exchange, ranks);
  apply_plan(plan, config);
  Reference reference(random_training(config.config, Shape{1, 3, 4}, kAgreeingCaseSteps));
  if (done.empty() && !spoil) return verify(reference, plan);
  const Plan other = plan_with(done.empty() ? exchange : done, ranks);
  return verify(reference, plan,
                [&](const Training& training, const Device& device, const RankOptions& rank) {
                  Program program = step_program(training.model, training.train, training.optim,
                                                 training.shape, device, {other, rank.rank, nullptr});
                  if (spoil) spoil(program);
                  return program;
                });
}

class EveryWay : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    All, EveryWay,
    testing::Values(R"({"method": "local", "steps": 2})",
                    R"({"method": "fedavg", "steps": 2, "fraction": 0.6, "seed": 3})",
                    R"({"method": "fedavg", "steps": 2, "clients": 7})",
                    R"({"method": "diloco", "steps": 2})",
                    R"({"method": "delayed", "delay": 1, "period": 2})",
                    R"({"method": "delayed", "delay": 2, "correction": false})", R"("d_psgd")",
                    R"({"method": "d_psgd", "staleness": 2})",
                    R"({"method": "d_psgd", "staleness": 1, "graph": "exponential"})", R"("sgp")",
                    R"("ad_psgd")", R"({"method": "ad_psgd", "graph": "torus", "seed": 4})",
                    R"({"method": "all_reduce", "wire": "bf16"})", R"({"method": "top_k", "ratio": 0.1})",
                    R"({"method": "dgc", "ratio": 0.1, "warmup": 2})",
                    R"({"method": "power_sgd", "rank": 1})", R"("one_bit")", R"("threshold")",
                    R"("terngrad")", R"({"method": "qsgd", "bucket": 16})", R"("signum")",
                    R"({"method": "atomo", "rank": 1})", R"({"method": "one_bit_adam", "warmup": 2})",
                    R"({"method": "shared_pattern", "ratio": 0.3, "block": 8})",
                    R"({"method": "pruned_ring", "ratio": 0.2})"));

TEST_P(EveryWay, IsWhatItSays) {
  for (const int ranks : {2, 5}) {
    const Result result = verify_mlp(GetParam(), ranks);
    EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
    EXPECT_GT(result.tensors, 20);
  }
}

class EveryServer : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, EveryServer,
                         testing::Values(R"("server")", R"({"method": "server", "servers": 2})",
                                         R"("async_server")", R"({"method": "async_server", "servers": 2})",
                                         R"({"method": "async_server", "stale_rate": true})",
                                         R"({"method": "ssp", "staleness": 2})",
                                         R"({"method": "ssp", "staleness": 1, "servers": 2})"));

TEST_P(EveryServer, IsWhatItSays) {
  for (const auto& [ranks, optimizer] : {std::pair{3, "sgd"}, {6, "adamw"}}) {
    const Result result = verify_mlp(GetParam(), ranks, "", optimizer);
    EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
    EXPECT_GT(result.tensors, 20);
  }
}

// What messages decide is run twice, or a worker is left out.
TEST(AtTheirOwnPace, AMistakeIsABug) {
  const auto twice = [](When::What what) -> Spoil {
    return [what](Program& program) {
      for (ActionList& list : program.lists) {
        if (list.when == When::asked(what)) list.actions.push_back(list.actions[0]);
      }
    };
  };
  const Spoil one_less = [](Program& program) {
    for (ActionList& list : program.lists) {
      if (list.when == When::step() && program.rank == 0) list.actions.erase(list.actions.begin() + 1);
    }
  };
  const std::tuple<const char*, Spoil, const char*> cases[] = {
      {R"({"method": "d_psgd", "staleness": 2})", twice(When::What::kMix), "update and agreement"},
      {R"("ad_psgd")", twice(When::What::kSettle), "update and agreement"},
      {R"("ad_psgd")", twice(When::What::kAnswer), "update and agreement"},
      {R"("server")", one_less, "update 1 of server 0, sums"},
      {R"({"method": "ssp", "staleness": 2})", one_less, "update 1 of server 0, sums"}};
  for (const auto& [exchange, spoil, where] : cases) {
    const Result result = verify_mlp(exchange, 5, "", "sgd", spoil);
    EXPECT_EQ(result.verdict, Verdict::kBug) << exchange;
    EXPECT_THAT(result.reason, testing::HasSubstr(where)) << exchange;
  }
}

struct Otherwise {
  const char *said, *done;
};
class Mistaken : public testing::TestWithParam<Otherwise> {};
INSTANTIATE_TEST_SUITE_P(
    All, Mistaken,
    testing::Values(Otherwise{R"({"method": "local", "steps": 2})", R"({"method": "local", "steps": 3})"},
                    Otherwise{R"({"method": "fedavg", "steps": 2})", R"({"method": "local", "steps": 2})"},
                    Otherwise{R"({"method": "fedavg", "steps": 1, "clients": 7})",
                              R"({"method": "fedavg", "steps": 1, "clients": 11})"},
                    Otherwise{R"({"method": "diloco", "steps": 2})",
                              R"({"method": "diloco", "steps": 2, "outer_rate": 0.701})"},
                    Otherwise{R"({"method": "delayed", "delay": 1})", R"({"method": "delayed", "delay": 2})"},
                    Otherwise{R"({"method": "delayed"})", R"({"method": "delayed", "correction": false})"},
                    Otherwise{R"("d_psgd")", R"({"method": "d_psgd", "graph": "exponential"})"},
                    Otherwise{R"("sgp")", R"({"method": "sgp", "graph": "ring"})"},
                    Otherwise{R"("async_server")", R"("server")"},
                    Otherwise{R"("server")", R"("async_server")"},
                    Otherwise{R"({"method": "top_k", "ratio": 0.1})",
                              R"({"method": "top_k", "ratio": 0.12})"},
                    Otherwise{R"({"method": "dgc", "ratio": 0.1})",
                              R"({"method": "dgc", "ratio": 0.1, "momentum": 0.89})"},
                    Otherwise{R"("threshold")", R"({"method": "threshold", "threshold": 0.0011})"},
                    Otherwise{R"("qsgd")", R"({"method": "qsgd", "seed": 1})"},
                    Otherwise{R"("signum")", R"({"method": "signum", "momentum": 0.89})"}));

TEST_P(Mistaken, IsABug) {
  const Result result = verify_mlp(GetParam().said, 5, GetParam().done);
  EXPECT_EQ(result.verdict, Verdict::kBug) << GetParam().said << " done as " << GetParam().done;
}

// Each rank by the rows that it has, with statistics of their own.
TEST(Agreeing, OfAModelWithBatchNorm) {
  for (const char* exchange :
       {R"({"method":"local","steps":2})", R"({"method":"delayed"})", R"("ad_psgd")",
        R"({"method":"d_psgd","staleness":2})", R"("server")", R"({"method":"async_server","servers":2})"}) {
    const Result result = verify_case(
        {.image = Shape{3, 5, 4},
         .settings = {"model.family=resnet", "model.layers=8", "model.classes=3", "train.accumulate=2",
                      "train.batch=24", "train.clip_norm=0", "optim.kind=adam"},
         .plan = fmt::format(R"({{"mesh":"data:4","exchange":{}}})", exchange),
         .exchange = exchange});
    EXPECT_EQ(result.verdict, Verdict::kRounding) << exchange << ": " << result.reason;
  }
}

// A replica may be several ranks: each agrees on its own parts. Three replicas show in what order sums are
// made, and sizes that ranks do not divide that those who have the same agree on the same bits.
struct Inside {
  const char *mesh, *rest;
};
class SeveralRanks : public testing::TestWithParam<Inside> {};
INSTANTIATE_TEST_SUITE_P(
    All, SeveralRanks,
    testing::Values(Inside{"data:3 tensor:2", R"("preset": "megatron")"},
                    Inside{"tensor:2 data:2", R"("preset": "megatron+sequence")"},
                    Inside{"pipe:2 data:3", R"("preset": "data")"},
                    Inside{"data:2 pipe:2", R"("schedule": "chimera")"},
                    Inside{"data:2 pipe:2 tensor:2", R"("preset": "megatron", "schedule": "gpipe")"},
                    Inside{"replica:3 data:2", R"("preset": "zero1")"},
                    Inside{"data:2 replica:2", R"("preset": "zero3")"},
                    Inside{"replica:2 data:2 tensor:2", R"("preset": "megatron+sequence+zero2")"},
                    Inside{"replica:2 pipe:2 data:2", R"("preset": "zero1")"}));

TEST_P(SeveralRanks, OfAReplicaAgreeOnTheirParts) {
  for (const char* exchange :
       {R"({"method": "local", "steps": 2})", R"({"method": "fedavg", "steps": 2, "fraction": 0.5})",
        R"({"method": "fedavg", "steps": 1, "clients": 4})", R"({"method": "diloco", "steps": 2})",
        R"({"method": "delayed", "delay": 1, "period": 2})",
        R"({"method": "delayed", "delay": 0, "correction": false})", R"("d_psgd")", R"("sgp")"}) {
    const Result result =
        verify_case({.settings = {"model.family=gpt", "model.layers=2", "model.heads=3", "model.hidden=12",
                                  "model.seq=6", "model.vocab=19", "train.batch=24", "train.accumulate=2",
                                  "train.clip_norm=0.5", "optim.kind=adamw"},
                     .plan = fmt::format(R"({{"mesh": "{}", {}, "exchange": {}}})", GetParam().mesh,
                                         GetParam().rest, exchange),
                     .exchange = exchange});
    EXPECT_EQ(result.verdict, Verdict::kRounding)
        << GetParam().mesh << ", " << exchange << ": " << result.reason;
  }
}

// With one microbatch, gradients are added up over data as they are made.
TEST(Agreeing, OfReplicasThatZeroSplits) {
  for (const char* preset : {"data", "zero1", "zero2", "zero3"}) {
    for (const char* exchange :
         {R"({"method": "diloco", "steps": 2})", R"({"method": "delayed", "delay": 1, "period": 2})",
          R"({"method": "top_k", "ratio": 0.1})", R"({"method": "power_sgd", "rank": 1})"}) {
      const Result result = verify_case(
          {.settings = {"model.family=gpt", "model.layers=2", "model.heads=2", "model.hidden=8",
                        "model.seq=6", "model.vocab=16", "train.batch=12"},
           .plan = fmt::format(R"({{"mesh": "replica:3 data:2", "preset": "{}", "exchange": {}}})", preset,
                               exchange),
           .exchange = exchange});
      EXPECT_EQ(result.verdict, Verdict::kRounding) << preset << ", " << exchange << ": " << result.reason;
    }
  }
}

// Under tensor parallelism each rank compresses its own parts of gradients, with residuals of their own.
TEST(Agreeing, OfPartsOfTensors) {
  for (const char* exchange :
       {R"({"method": "top_k", "ratio": 0.1})", R"({"method": "dgc", "ratio": 0.1})",
        R"({"method": "power_sgd", "rank": 1})", R"("one_bit")", R"({"method": "qsgd", "bucket": 16})",
        R"("signum")", R"({"method": "shared_pattern", "ratio": 0.3, "block": 8})",
        R"({"method": "pruned_ring", "ratio": 0.2})"}) {
    for (const auto& [mesh, preset] :
         {std::pair("data:2 tensor:2", "megatron"), std::pair("tensor:2 pipe:2 data:2", "megatron"),
          std::pair("replica:2 data:2", "data"), std::pair("replica:2 data:2", "zero1"),
          std::pair("replica:2 data:2 tensor:2", "megatron+zero3")}) {
      const Result result = verify_case(
          {.settings = {"model.family=gpt", "model.layers=2", "model.heads=2", "model.hidden=8",
                        "model.seq=6", "model.vocab=16", "train.batch=8", "train.accumulate=2",
                        "train.clip_norm=0", "optim.kind=sgd"},
           .plan = fmt::format(R"({{"mesh": "{}", "preset": "{}", "exchange": {}}})", mesh, preset, exchange),
           .exchange = exchange});
      EXPECT_EQ(result.verdict, Verdict::kRounding) << mesh << ", " << exchange << ": " << result.reason;
    }
  }
}

// Batch norms in a pipeline, and in replicas whose ranks share their rows.
TEST(Agreeing, OfBatchNormInsideAReplica) {
  for (const char* exchange : {R"({"method": "local", "steps": 2})", R"("sgp")"}) {
    for (const char* mesh : {"pipe:2 data:2", "replica:2 data:2", "data:2 replica:2"}) {
      const Result result =
          verify_case({.image = Shape{3, 5, 4},
                       .settings = {"model.family=resnet", "model.layers=8", "model.classes=3",
                                    "train.accumulate=2", "train.batch=16", "optim.kind=adam"},
                       .plan = fmt::format(R"({{"mesh": "{}", "exchange": {}}})", mesh, exchange),
                       .exchange = exchange});
      EXPECT_EQ(result.verdict, Verdict::kRounding) << mesh << ", " << exchange << ": " << result.reason;
    }
  }
}

// The recurrent weight of one time step has no gradient, and a matrix of zeros no direction.
TEST(Agreeing, OfAGradientOfZeros) {
  const Result result =
      verify_case({.settings = {"model.family=lstm", "model.layers=1", "model.hidden=9", "model.vocab=18",
                                "model.seq=1", "train.batch=10", "train.clip_norm=0", "optim.kind=sgd"},
                   .plan = R"({"mesh":"data:2","exchange":{"method":"power_sgd","rank":1}})",
                   .exchange = R"({"method":"power_sgd","rank":1})"});
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

}  // namespace
}  // namespace trireme::parity

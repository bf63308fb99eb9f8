// What the simulator says that a rank sends is what its Program promises, for every way of agreement. That
// the transport counts the same is tested beside each (methods_test.cc, local_test.cc, gossip_test.cc,
// server_test.cc).
#include <gtest/gtest.h>

#include "trireme/mesh/cluster_file.h"
#include "trireme/plan/agreement.h"
#include "trireme/sim/simulate.h"
#include "trireme/train/step_programs.h"

namespace trireme {
namespace {

struct Counted {
  Plan plan;
  ModelOptions model;
  TrainOptions train;
  OptimOptions optim;
  StepShape shape{12, {1, 4, 4}};

  explicit Counted(const std::string& exchange, const char* family = "mlp", int ranks = 4)
      : plan(parse_plan(fmt::format(R"({{"mesh": "data:{}", "exchange": {}}})", ranks, exchange), "test")) {
    model.family = family;
    model.layers = model.family == "mlp" ? 2 : 8;
    model.hidden = 16;
    if (model.family == "resnet") shape.sample = Shape{3, 5, 5};
    model.classes = 4;
    train.batch = 12;
    train.clip_norm = 0;
    optim.kind = "sgd";
  }
};

sim::SimReport simulated(const Counted& setting, const StepPrograms& programs) {
  const Cluster cluster = with_hosts(read_cluster("a100"), 4);
  return sim::simulate(DeviceMap(setting.plan.mesh, cluster),
                       [&](int rank) { return programs.rank(rank, nullptr); },
                       {.ranks = sim::SimOptions::Ranks::kAll, .plan = setting.plan});
}

class SimulatedBytes : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, SimulatedBytes, ::testing::Values("mlp", "resnet"));

TEST_P(SimulatedBytes, AreTheProgramsOwn) {
  for (const char* exchange : {R"("all_reduce")",
                               R"({"method": "top_k", "ratio": 0.1})",
                               R"({"method": "dgc", "ratio": 0.1})",
                               R"("power_sgd")",
                               R"("one_bit")",
                               R"("threshold")",
                               R"("terngrad")",
                               R"("qsgd")",
                               R"("signum")",
                               R"("atomo")",
                               R"("shared_pattern")",
                               R"("pruned_ring")",
                               R"({"method": "local", "steps": 3})",
                               R"({"method": "fedavg", "steps": 2})",
                               R"({"method": "diloco", "steps": 5})",
                               R"({"method": "delayed", "period": 2, "delay": 3})",
                               R"({"method": "delayed", "delay": 0})",
                               R"("d_psgd")",
                               R"({"method": "d_psgd", "graph": "exponential"})",
                               R"({"method": "d_psgd", "staleness": 2})",
                               R"("sgp")",
                               R"({"method": "sgp", "graph": "exponential"})"}) {
    SCOPED_TRACE(exchange);
    const Counted setting(exchange, GetParam());
    const StepPrograms programs(setting.model, setting.train, setting.optim, setting.shape, setting.plan);
    const sim::SimReport report = simulated(setting, programs);
    double all = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const double promised = bytes_sent_in_step(programs.rank(rank, nullptr));
      EXPECT_GT(promised, 0);
      EXPECT_NEAR(report.ranks[rank].time.bytes_sent / promised, 1, 1e-12);
      all += promised;
    }
    EXPECT_NEAR(report.bytes_sent / all, 1, 1e-12);
  }
}

// A server sends each worker its weights once in a step.
TEST_P(SimulatedBytes, OfServersAreAnAnswerToEachWorker) {
  for (const char* exchange : {R"("server")", R"({"method": "server", "servers": 2})", R"("async_server")",
                               R"({"method": "ssp", "staleness": 2})"}) {
    SCOPED_TRACE(exchange);
    const Counted setting(exchange, GetParam(), 5);
    const Servers servers = *setting.plan.agreement.servers();
    const StepPrograms programs(setting.model, setting.train, setting.optim, setting.shape, setting.plan);
    const sim::SimReport report = simulated(setting, programs);
    for (int rank = 0; rank < 5; ++rank) {
      const Program program = programs.rank(rank, nullptr);
      double promised = bytes_sent_in_step(program);
      for (const ActionList& list : program.lists) {
        const bool answers = list.actions.size() == 1 && list.actions[0].kind == Action::Kind::kSend;
        if (servers.serves(rank) && answers && list.actions[0].peer >= servers.count)
          promised += bytes_sent(program, list);
      }
      EXPECT_NEAR(report.ranks[rank].time.bytes_sent / promised, 1, 1e-12) << rank;
    }
  }
}

// Of 5 clients on 4 replicas, in two turns, the last three have none in the second one: they compute half of
// what the first does, and a round takes two turns.
TEST(SimulatedClients, WhoHasNoneComputesNothing) {
  const auto report_of = [](const char* exchange) {
    const Counted setting(exchange);
    const StepPrograms programs(setting.model, setting.train, setting.optim, setting.shape, setting.plan);
    return simulated(setting, programs);
  };
  const sim::SimReport all = report_of(R"({"method": "fedavg", "steps": 2})"),
                       turns = report_of(R"({"method": "fedavg", "steps": 2, "clients": 5})"),
                       one = report_of(R"({"method": "fedavg", "steps": 2, "fraction": 0.25})");
  EXPECT_EQ(all.steps, 2);
  EXPECT_EQ(turns.steps, 4);
  EXPECT_GT(all.ranks[0].time.flops, 0);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_DOUBLE_EQ(turns.ranks[rank].time.flops / all.ranks[rank].time.flops, rank == 0 ? 1 : 0.5) << rank;
    EXPECT_DOUBLE_EQ(one.ranks[rank].time.flops / all.ranks[rank].time.flops, rank == 0 ? 1 : 0) << rank;
  }
  // The others wait for who computes.
  EXPECT_GT(one.step_seconds, 0.9 * all.step_seconds);
}

}  // namespace
}  // namespace trireme

// A server and its workers: without staleness the bits of plain data parallelism; the same order of arrivals
// gives the same bits again, and one that can not be is refused. That updates are those which the order says
// is for `trireme verify` (train/parity/served.h), and its test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/exchange/local_ranks.h"
#include "tests/exchange/served_ranks.h"
#include "tests/support/error_of.h"
#include "trireme/exchange/served.h"
#include "trireme/ops/table.h"
#include "trireme/optim/update.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

Plan server_plan(int ranks, const std::string& exchange) {
  return plan_of(fmt::format("data:{}", ranks), exchange);
}

Plan plan_with_workers(int workers, const std::string& exchange) {
  return server_plan(server_plan(100, exchange).agreement.servers()->count + workers, exchange);
}

Training training_with(const std::string& optimizer, int64_t steps = 5) {
  Training training = small_mlp();
  training.optim.kind = optimizer;
  training.steps = steps;
  training.rate = optimizer == "sgd" ? 0.3 : 0.01;
  return training;
}

// Jitter, and workers of different speed.
ServedOptions uneven(int workers) {
  ServedOptions options{.link = comm::EmulatedLink{.latency_seconds = 1e-4, .jitter_seconds = 3e-3}};
  for (int worker = 0; worker < workers; ++worker) options.slow_milliseconds.push_back(worker == 1 ? 9 : 1);
  return options;
}

void expect_plain(const ServedRun& run, const PlainRun& plain, int servers = 1) {
  ASSERT_EQ(run.steps.size(), plain.weights.size());
  for (size_t step = 0; step < run.steps.size(); ++step) {
    EXPECT_EQ(run.steps[step].weights, plain.weights[step]) << "step " << step + 1;
    EXPECT_EQ(run.steps[step].result.loss, plain.results[step].loss) << "step " << step + 1;
    if (servers == 1) {  // of several, one has the norm of some gradients
      EXPECT_EQ(run.steps[step].result.norm, plain.results[step].norm) << "step " << step + 1;
    }
    EXPECT_EQ(run.steps[step].result.staleness_max, 0);
  }
  EXPECT_EQ(run.optimizer, plain.optimizer);
}

void expect_near(const std::map<std::string, Floats>& got, const std::map<std::string, Floats>& expected,
                 const std::string& where);

struct Synchronous {
  std::string name, exchange, optimizer;
  int workers, servers = 1;
  int64_t microbatches = 1;
  double clip = 0;
  bool batch_norm = false;
};
class SynchronousServer : public ::testing::TestWithParam<Synchronous> {};
INSTANTIATE_TEST_SUITE_P(
    All, SynchronousServer,
    ::testing::Values(Synchronous{"two", R"("server")", "sgd", 2},
                      Synchronous{"one", R"("server")", "adamw", 1},
                      Synchronous{"adamw_clipped", R"("server")", "adamw", 4, 1, 1, 0.1},
                      Synchronous{"microbatches", R"("server")", "momentum", 3, 1, 2},
                      Synchronous{"ssp_0", R"({"method": "ssp", "staleness": 0})", "adamw", 3},
                      Synchronous{"two_servers", R"({"method": "server", "servers": 2})", "adamw", 3, 2},
                      Synchronous{"batch_norm", R"("server")", "momentum", 3, 1, 2, 0, true},
                      Synchronous{"two_servers_batch_norm", R"({"method": "server", "servers": 2})", "sgd", 2,
                                  2, 1, 0, true},
                      Synchronous{"three_servers_ssp_0", R"({"method": "ssp", "staleness": 0, "servers": 3})",
                                  "sgd", 2, 3}),
    [](const auto& tested) { return tested.param.name; });

TEST_P(SynchronousServer, HasTheBitsOfPlainDataParallelism) {
  Training training = training_with(GetParam().optimizer);
  training.train.accumulate = GetParam().microbatches;
  training.train.clip_norm = GetParam().clip;
  const int workers = GetParam().workers;
  if (GetParam().batch_norm) {
    const Training resnet = small_resnet();
    training.model = resnet.model;
    training.model.batch_norm_groups = workers;  // of plain data parallelism too
    training.shape = resnet.shape;
  }
  const ServedRun run =
      served_run(server_plan(workers + GetParam().servers, GetParam().exchange), training, uneven(workers));
  expect_plain(run, plain_run(workers, training), GetParam().servers);
  const PlainRun plain = plain_run(workers, training);
  for (size_t step = 0; step < run.steps.size(); ++step) {
    EXPECT_EQ(run.steps[step].statistics.empty(), !GetParam().batch_norm);
    expect_near(run.steps[step].statistics, plain.statistics[step], fmt::format("step {}", step + 1));
  }
  for (int worker = 0; worker < workers; ++worker) {
    EXPECT_EQ(run.left[worker], run.steps.back().weights);
    EXPECT_EQ(run.computed[worker], training.steps);
  }
}

TEST(Server, DropoutIsThatOfPlainDataParallelism) {
  Training training = small_gpt();
  training.model.dropout = 0.2;
  expect_plain(served_run(server_plan(3, R"("server")"), training), plain_run(2, training));
}

// The model's step of a worker alone, at weights that are given.
class Gradients {
 public:
  Gradients(const Training& training, int workers) : training_(training) {
    const Plan plan = server_plan(workers + 1, R"("server")");
    for (int worker = 0; worker < workers; ++worker) {
      Program program = step_program(training.model, training.train, training.optim, training.shape, *device_,
                                     {plan, worker + 1, nullptr});
      std::erase_if(program.lists,
                    [](const ActionList& list) { return list.when.kind == When::Kind::kEvery; });
      trainers_.push_back(std::make_unique<Trainer>(std::move(program), training.train, training.shape,
                                                    *device_, RankOptions()));
    }
  }
  std::map<std::string, Floats> start() {
    trainers_[0]->initialise(1);
    return read(*trainers_[0], Role::kParameter);
  }
  // Of the mean over the worker's rows.
  std::map<std::string, Floats> at(const std::map<std::string, Floats>& weights, int worker, int64_t step) {
    Trainer& trainer = *trainers_[worker];
    for (const auto& [name, values] : weights)
      trainer.executor().write_state(name, values.data(), values.size() * sizeof(float));
    Batch batch = random_batch(training_, step);
    trainer.forward_backward(batch, step);
    std::map<std::string, Floats> gradients = read(trainer, Role::kGradient);
    float count = 0;
    trainer.executor().read_state("accumulated.count", &count, sizeof count);
    for (auto& [name, values] : gradients) {
      for (float& value : values) value /= count;
    }
    return gradients;
  }

 private:
  const Training& training_;
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  std::vector<std::unique_ptr<Trainer>> trainers_;
};

void expect_near(const std::map<std::string, Floats>& got, const std::map<std::string, Floats>& expected,
                 const std::string& where) {
  for (const auto& [name, values] : expected) {
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got.at(name)[i], values[i], 2e-6) << name << ", element " << i << ", " << where;
  }
}

void descend(std::map<std::string, Floats>& weights, const std::map<std::string, Floats>& gradients,
             double rate) {
  for (auto& [name, values] : weights) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<double>(values[i]) -
                                     rate * static_cast<double>(gradients.at(name)[i]));
  }
}

// What a worker that is lost has sent for a step that is not through counts neither there nor later: the mean
// is then of the others.
TEST(Server, GradientsOfALostWorkerCountNoMore) {
  const int workers = 3;
  const Training training = training_with("sgd");
  const Orders orders = {{{1, {1, 2, 3}}, {2, {3, 2, 1}}, {3, {1, -2, 3}}, {4, {3, 1}}, {5, {1, 3}}}};
  const ServedRun run = served_run(server_plan(workers + 1, R"("server")"), training, {.replay = orders});
  Gradients gradients(training, workers);
  std::map<std::string, Floats> weights = gradients.start();
  ASSERT_EQ(run.steps.size(), 5u);
  for (size_t step = 0; step < run.steps.size(); ++step) {
    std::map<std::string, Floats> mean;
    const std::vector<int> there = step < 2 ? std::vector{0, 1, 2} : std::vector{0, 2};
    for (const int worker : there) {
      for (const auto& [name, values] : gradients.at(weights, worker, static_cast<int64_t>(step))) {
        mean[name].resize(values.size());
        for (size_t i = 0; i < values.size(); ++i)
          mean[name][i] += values[i] / static_cast<float>(there.size());
      }
    }
    descend(weights, mean, training.rate);
    expect_near(run.steps[step].weights, weights, fmt::format("step {}", step + 1));
  }
}

// Each server lets all workers go after the same step, however far each was heard of.
TEST(Server, EndsWhenItIsStopped) {
  const Training training = training_with("sgd", 50);
  for (const char* exchange : {R"("server")", R"("async_server")", R"({"method": "ssp", "staleness": 3})",
                               R"({"method": "ssp", "staleness": 3, "servers": 2})",
                               R"({"method": "async_server", "servers": 2})"}) {
    ServedOptions options = uneven(2);
    options.stop_after = 4;
    const Plan plan = plan_with_workers(2, exchange);
    const ServedRun run = served_run(plan, training, options);
    EXPECT_EQ(run.steps.size(), 4u);
    EXPECT_THAT(run.computed, Each(::testing::Lt(50))) << exchange;
  }
}

class Replay : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Replay,
                         ::testing::Values(R"("async_server")", R"({"method": "ssp", "staleness": 2})",
                                           R"({"method": "async_server", "servers": 2})",
                                           R"({"method": "ssp", "staleness": 2, "servers": 3})"));

TEST_P(Replay, HasTheBitsOfTheRunWhateverTheTimes) {
  const int workers = 3;
  const Training training = training_with("adamw", 6);
  const Plan plan = plan_with_workers(workers, GetParam());
  const ServedRun run = served_run(plan, training, uneven(workers));
  const ServedRun again = served_run(plan, training, {.replay = run.orders});
  ASSERT_EQ(again.steps.size(), run.steps.size());
  for (size_t step = 0; step < run.steps.size(); ++step) {
    EXPECT_EQ(again.steps[step].weights, run.steps[step].weights) << "step " << step + 1;
    EXPECT_EQ(again.steps[step].result.loss, run.steps[step].result.loss);
  }
  EXPECT_EQ(again.orders, run.orders);
  EXPECT_EQ(again.optimizer, run.optimizer);
}

// Another order gives other weights: or a replay would show nothing.
TEST(Replay, OfAnotherOrderHasOtherBits) {
  const Training training = training_with("adamw", 2);
  const Plan plan = server_plan(3, R"("async_server")");
  const auto run = [&](Arrivals first) {
    return served_run(plan, training, {.replay = {{{1, std::move(first)}, {2, {1, 2}}}}})
        .steps.back()
        .weights;
  };
  EXPECT_NE(run({1, 2}), run({2, 1}));
  EXPECT_NE(run({1, 2}), run({1, 1}));
}

// A worker that was lost then is let go of now: the others have the bits that they had.
TEST(Replay, OfALostWorkerGoesOnWithoutIt) {
  const Training training = training_with("sgd", 3);
  for (const char* exchange : {R"("async_server")", R"({"method": "ssp", "staleness": 1})", R"("server")"}) {
    const bool arrivals = std::string(exchange).find("async") != std::string::npos;
    const std::map<int64_t, Arrivals> order =
        arrivals ? std::map<int64_t, Arrivals>{{1, {1, 2, 3}}, {2, {1, -2, 3, 1}}, {3, {3, 1, 3}}}
                 : std::map<int64_t, Arrivals>{{1, {1, 2, 3}}, {2, {1, -2, 3}}, {3, {3, 1}}};
    const ServedRun run = served_run(server_plan(4, exchange), training, {.replay = {order}});
    EXPECT_EQ(run.orders[0], order);
    EXPECT_FALSE(run.steps.back().result.skipped);
    EXPECT_NE(run.steps[1].weights, run.steps[2].weights);
  }
}

TEST(Replay, OfAnOrderThatCanNotBeIsRefused) {
  const Training training = training_with("sgd", 2);
  const auto error = [&](const char* exchange, std::map<int64_t, Arrivals> order) {
    return error_of([&] { served_run(server_plan(3, exchange), training, {.replay = {std::move(order)}}); });
  };
  EXPECT_THAT(error(R"("server")", {{1, {1, 1}}}), HasSubstr("rank 1 next, but that one has none until"));
  EXPECT_THAT(error(R"("server")", {{1, {1, 2}}}), HasSubstr("step 2 is to be replayed"));
  EXPECT_THAT(error(R"("server")", {{1, {1}}}), HasSubstr("is not through after the 1 arrivals"));
  EXPECT_THAT(error(R"("async_server")", {{1, {1, 2, 1}}}), HasSubstr("was through after 2 of the 3"));
  EXPECT_THAT(error(R"("async_server")", {{1, {1, -2, 2, 1}}}), HasSubstr("is not there any more"));
  EXPECT_THAT(error(R"("async_server")", {{1, {-1, -2, 1}}}), HasSubstr("all workers are lost"));
}

TEST(Server, HasSoundProgramsThatSendWhatTheySay) {
  const Training training = training_with("adamw", 2);
  for (const char* exchange : {R"("server")", R"("async_server")", R"({"method": "ssp", "staleness": 3})",
                               R"({"method": "server", "servers": 2})"}) {
    const Plan plan = server_plan(4, exchange);
    const Servers servers = *plan.agreement.servers();
    const int worker = servers.rank_of(0);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    std::vector<Program> ranks;
    for (int rank = 0; rank < 4; ++rank)
      ranks.push_back(step_program(training.model, training.train, training.optim, training.shape, *device,
                                   {plan, rank, nullptr}));
    verify(ranks);
    for (const Program& program : ranks)
      EXPECT_EQ(print(parse_program(print(program), ops())), print(program));
    // Gradients, and to each server the loss, its count and whether the worker is asked to stop.
    const double formula = 4.0 * static_cast<double>(ranks[0].parameters) + 12 * servers.count;
    EXPECT_EQ(bytes_sent_in_step(ranks[worker]), formula);
    EXPECT_THAT(served_run(plan, training).bytes_sent, Each(formula));
    // Workers have no states of the optimizer.
    const auto has_states = [](const Program& program) {
      return std::ranges::any_of(program.states,
                                 [](const State& state) { return state.role == Role::kOptimizer; });
    };
    EXPECT_TRUE(has_states(ranks[0]));
    EXPECT_FALSE(has_states(ranks[worker]));
  }
}

TEST(Server, IsRefusedWhenThePlanIsReadWhereItCanNotBe) {
  const auto refusal = [](const std::string& plan) { return error_of([&] { parse_plan(plan, "a test"); }); };
  EXPECT_THAT(refusal(R"({"mesh": "data:1", "exchange": "server"})"), HasSubstr("servers = 1 of 1 ranks"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4", "exchange": {"method": "ssp", "servers": 4}})"),
              HasSubstr("servers = 4 of 4 ranks; at least one rank must be left"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4", "exchange": {"method": "server", "servers": -1}})"),
              HasSubstr("servers = -1; a whole number; a number from 1"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4", "exchange": {"method": "server", "servers": 0}})"),
              HasSubstr("servers = 0"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4", "exchange": {"method": "server", "servers": 2}})"),
              HasSubstr("no error"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4", "exchange": {"method": "async_server", "servers": 2}})"),
              HasSubstr("no error"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4", "exchange": {"method": "ssp", "staleness": -1}})"),
              HasSubstr("staleness = -1"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4", "exchange": {"method": "server", "staleness": 1}})"),
              HasSubstr("no setting 'staleness'"));
  EXPECT_THAT(refusal(R"({"mesh": "data:2 tensor:2", "preset": "megatron", "exchange": "server"})"),
              HasSubstr("an axis besides data"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4 pipe:2", "exchange": "async_server"})"),
              HasSubstr("an axis besides data"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4", "preset": "zero1", "exchange": "server"})"), HasSubstr("zero1"));
  EXPECT_THAT(refusal(R"({"mesh": "data:4", "exchange": ["server", "top_k"]})"), HasSubstr("exchange"));
  EXPECT_THAT(
      refusal(
          R"({"mesh": "data:4", "exchange": "server", "offload": {"optimizer": "file", "folder": "/tmp"}})"),
      HasSubstr("offload"));
}

TEST(Server, IsRefusedWithWhatATrainingMayNotHave) {
  const auto refusal = [](const Training& training, const char* exchange = R"("server")", int ranks = 3) {
    const std::unique_ptr<Device> device = make_cpu_device(1);
    return error_of([&] {
      step_program(training.model, training.train, training.optim, training.shape, *device,
                   {server_plan(ranks, exchange), ranks - 1, nullptr});
    });
  };
  Training training = small_mlp();
  EXPECT_EQ(refusal(training), "no error");
  training.train.precision = "f16";
  EXPECT_THAT(refusal(training), HasSubstr("use bf16 or f32"));
  training = small_mlp();
  training.train.noise_scale = true;
  EXPECT_THAT(refusal(training), HasSubstr("noise_scale"));
  training = small_mlp();
  training.train.precision = training.train.weight_precision = "bf16";
  EXPECT_THAT(refusal(training), HasSubstr("weight_precision"));
  training = small_mlp();
  training.train.clip_norm = 1;
  EXPECT_EQ(refusal(training), "no error");
  EXPECT_THAT(refusal(training, R"({"method": "server", "servers": 2})"), HasSubstr("use one server"));
  training = small_mlp();
  EXPECT_THAT(refusal(training, R"({"method": "server", "servers": 60})", 64), HasSubstr("use fewer"));
}

// A gradient that is not finite makes all servers skip the step, whoever has it.
TEST(Server, SkipsTheStepOfAGradientThatIsNotFinite) {
  Training training = training_with("sgd", 2);
  training.train.max_skipped = 5;
  ServedOptions options;
  options.loss_scale = 3e37;  // some gradients overflow, the loss does not
  const ServedRun run =
      served_run(server_plan(5, R"({"method": "server", "servers": 3})"), training, options);
  const std::map<std::string, Floats> start = Gradients(training, 2).start();
  for (const ServedRun::Step& step : run.steps) {
    EXPECT_TRUE(step.result.skipped);
    EXPECT_EQ(step.weights, start);
  }
}

}  // namespace
}  // namespace trireme::testing

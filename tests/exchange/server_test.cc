// A server and its workers: without staleness the bits of plain data parallelism; with it, and where each
// gradient makes an update, what the order of arrivals says, written out; the same order gives the same bits
// again, and one that can not be is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "tests/exchange/adam.h"
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
  std::map<std::string, Floats> start() { return start(Role::kParameter); }
  std::map<std::string, Floats> start(Role role) {
    trainers_[0]->initialise(1);
    return read(*trainers_[0], role);
  }
  // What it has made of running statistics, of the step that was asked for last.
  Floats made(int worker, const std::string& buffer) {
    return read(*trainers_[worker], Role::kPending).at(pending_name(buffer));
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

// Where the size of a gradient hardly matters to its step, that of one which is nearly 0 is rounding: of all
// elements together the steps differ by less than a thousandth of the rate.
void expect_near_in_mean(const std::map<std::string, Floats>& got,
                         const std::map<std::string, Floats>& expected, double rate,
                         const std::string& where) {
  double difference = 0, elements = 0;
  for (const auto& [name, values] : expected) {
    for (size_t i = 0; i < values.size(); ++i)
      difference += std::abs(static_cast<double>(got.at(name)[i]) - static_cast<double>(values[i]));
    elements += static_cast<double>(values.size());
  }
  EXPECT_LT(difference / elements, 1e-3 * rate) << where;
}

void descend(std::map<std::string, Floats>& weights, const std::map<std::string, Floats>& gradients,
             double rate) {
  for (auto& [name, values] : weights) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<double>(values[i]) -
                                     rate * static_cast<double>(gradients.at(name)[i]));
  }
}

// Each gradient is of the weights that its worker was given last, and makes an update of its own.
TEST(AsyncServer, MakesTheUpdatesThatTheOrderOfArrivalsSays) {
  for (const bool by_staleness : {false, true}) {
    const int workers = 3;
    const Training training = training_with("sgd");
    const ServedRun run = served_run(
        server_plan(workers + 1,
                    fmt::format(R"({{"method": "async_server", "stale_rate": {}}})", by_staleness)),
        training, uneven(workers));
    Gradients gradients(training, workers);
    std::map<std::string, Floats> weights = gradients.start();
    std::vector<std::map<std::string, Floats>> given(workers, weights);
    std::vector<int64_t> version(workers), clock(workers);
    int64_t updates = 0, stalest = 0;
    for (size_t step = 0; step < run.steps.size(); ++step) {
      ASSERT_EQ(run.steps[step].arrivals.size(), size_t{workers});
      int64_t most = 0;
      for (const int rank : run.steps[step].arrivals) {
        const int worker = rank - 1;
        const int64_t staleness = updates - version[worker];
        most = std::max(most, staleness);
        descend(weights, gradients.at(given[worker], worker, clock[worker]++),
                by_staleness ? training.rate / std::max<double>(1, staleness) : training.rate);
        given[worker] = weights;
        version[worker] = ++updates;
      }
      EXPECT_EQ(run.steps[step].result.staleness_max, static_cast<double>(most));
      expect_near(run.steps[step].weights, weights, fmt::format("step {}", step + 1));
      stalest = std::max(stalest, most);
    }
    EXPECT_GT(stalest, 0);
  }
}

// Of as many workers as there are, each goes one such part of the way with what it has made of them.
TEST(AsyncServer, GoesSomeOfTheWayToTheStatisticsOfWhoArrives) {
  for (const char* exchange : {R"("async_server")", R"({"method": "async_server", "servers": 2})"}) {
    const int workers = 3;
    Training training = small_resnet();
    training.steps = 4;
    training.rate = 0.03;
    const Plan plan = plan_with_workers(workers, exchange);
    const int servers = plan.agreement.servers()->count;
    // With one order for all servers, so that what workers have is one model.
    Orders orders(static_cast<size_t>(servers));
    for (auto& order : orders) {
      for (int64_t step = 1; step <= training.steps; ++step)
        order[step] = step % 2 == 0 ? Arrivals{servers + 2, servers, servers + 1}
                                    : Arrivals{servers, servers + 1, servers + 2};
    }
    const ServedRun run = served_run(plan, training, {.replay = orders});
    Gradients gradients(training, workers);
    std::map<std::string, Floats> weights = gradients.start(), statistics = gradients.start(Role::kBuffer);
    std::vector<std::map<std::string, Floats>> given(workers, weights), had(workers, statistics);
    for (size_t step = 0; step < run.steps.size(); ++step) {
      for (const int rank : run.orders[0].at(static_cast<int64_t>(step) + 1)) {
        const int worker = rank - servers;
        std::map<std::string, Floats> all = given[worker];
        all.insert(had[worker].begin(), had[worker].end());
        descend(weights, gradients.at(all, worker, static_cast<int64_t>(step)), training.rate);
        for (auto& [name, values] : statistics) {
          const Floats made = gradients.made(worker, name);
          for (size_t i = 0; i < values.size(); ++i) values[i] += (made[i] - values[i]) / workers;
        }
        given[worker] = weights;
        had[worker] = statistics;
      }
      expect_near(run.steps[step].statistics, statistics, fmt::format("step {}", step + 1));
    }
  }
}

// The parameters whose updates each of the servers makes.
std::vector<std::set<std::string>> parameters_of_servers(const Plan& plan, const Training& training) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::vector<std::set<std::string>> result;
  for (int server = 0; server < plan.agreement.servers()->count; ++server) {
    const Program program = step_program(training.model, training.train, training.optim, training.shape,
                                         *device, {plan, server, nullptr});
    std::set<std::string>& own = result.emplace_back();
    for (const State& state : program.states) {
      if (state.role == Role::kGradient && state.attrs.has("of")) own.emplace(state.attrs.text("of"));
    }
  }
  return result;
}

// Each has an order of its own, and a worker goes on when all have given it weights.
TEST(AsyncServer, OfSeveralEachMakesTheUpdatesThatItsOrderSays) {
  const int workers = 3, servers = 2;
  const Training training = training_with("sgd");
  const Plan plan = plan_with_workers(workers, R"({"method": "async_server", "servers": 2})");
  const ServedRun run = served_run(plan, training, uneven(workers));
  const std::vector<std::set<std::string>> own = parameters_of_servers(plan, training);
  Gradients gradients(training, workers);
  std::map<std::string, Floats> weights = gradients.start();
  std::vector<std::map<std::string, Floats>> given(workers, weights), gradient(workers);
  std::vector<int64_t> made(workers);  // steps of each worker
  std::vector<std::vector<int64_t>> taken(servers, std::vector<int64_t>(workers));
  for (size_t step = 0; step < run.steps.size(); ++step) {
    std::vector<std::span<const int>> left;
    for (const auto& order : run.orders) left.emplace_back(order.at(static_cast<int64_t>(step) + 1));
    // Whether the server's next update could be made: where its gradient is there.
    const auto update = [&](int server) {
      if (left[server].empty()) return false;
      const int worker = left[server][0] - servers;
      if (taken[server][worker] == made[worker]) {
        for (const auto& of_server : taken) {
          if (of_server[worker] < made[worker]) return false;
        }
        gradient[worker] = gradients.at(given[worker], worker, made[worker]++);
      }
      for (const std::string& name : own[server]) {
        std::map<std::string, Floats> one = {{name, weights.at(name)}};
        descend(one, gradient[worker], training.rate);
        given[worker][name] = weights[name] = one.at(name);
      }
      ++taken[server][worker];
      left[server] = left[server].subspan(1);
      return true;
    };
    while (update(0) || update(1)) {
    }
    ASSERT_TRUE(left[0].empty() && left[1].empty()) << "step " << step + 1;
    expect_near(run.steps[step].weights, weights, fmt::format("step {}", step + 1));
  }
}

// A gradient of step c is of weights that have seen at least the updates before c − staleness, which are
// those of whole steps; the optimizer is the server's.
class Ssp : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Ssp, ::testing::Values("sgd", "adamw"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(Ssp, MakesTheUpdatesThatTheOrderOfArrivalsSays) {
  const int workers = 3, staleness = 2;
  const Training training = training_with(GetParam(), 7);
  const ServedRun run =
      served_run(server_plan(workers + 1, fmt::format(R"({{"method": "ssp", "staleness": {}}})", staleness)),
                 training, uneven(workers));
  Gradients gradients(training, workers);
  std::vector<std::map<std::string, Floats>> versions = {gradients.start()};
  std::map<std::string, WrittenOutAdam> adam;
  std::vector<std::vector<int64_t>> seen(workers, {0});  // versions, by worker and step
  std::vector<int64_t> clock(workers);
  bool ahead = false;
  for (size_t step = 0; step < run.steps.size(); ++step) {
    const auto give = [&] {
      for (int worker = 0; worker < workers; ++worker) {
        const int64_t version = std::ssize(versions) - 1;
        const bool has_weights = std::ssize(seen[worker]) > clock[worker];
        if (!has_weights && clock[worker] - version <= staleness) seen[worker].push_back(version);
      }
    };
    for (const int rank : run.steps[step].arrivals) {
      ++clock[rank - 1];
      give();
    }
    std::map<std::string, Floats> sum;
    for (int worker = 0; worker < workers; ++worker) {
      const int64_t version = seen[worker][step];
      EXPECT_GE(version, static_cast<int64_t>(step) - staleness);
      ahead |= version < static_cast<int64_t>(step);
      for (const auto& [name, values] : gradients.at(versions[version], worker, static_cast<int64_t>(step))) {
        sum[name].resize(values.size());
        for (size_t i = 0; i < values.size(); ++i) sum[name][i] += values[i] / static_cast<float>(workers);
      }
    }
    std::map<std::string, Floats> next = versions.back();
    if (std::string(GetParam()) == "sgd") {
      descend(next, sum, training.rate);
      expect_near(run.steps[step].weights, next, fmt::format("step {}", step + 1));
    } else {
      for (auto& [name, values] : next) {
        WrittenOutAdam& own = adam.try_emplace(name, training.optim).first->second;
        const std::vector<double> change = own.change({sum[name].begin(), sum[name].end()}, training.rate);
        for (size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(change[i]);
      }
      expect_near_in_mean(run.steps[step].weights, next, training.rate, fmt::format("step {}", step + 1));
      next = run.steps[step].weights;  // or rounding of small gradients would add up
    }
    versions.push_back(next);
    give();
    EXPECT_LE(*run.steps[step].result.staleness_max, staleness);
  }
  EXPECT_TRUE(ahead);
  EXPECT_THAT(run.computed, Each(training.steps));
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

// Ranks that go on by themselves for some steps, against the same written out in double precision for all
// ranks at once (agreed_weights.h), from the gradients that they had; what agrees in every step is the dense
// sum; a meeting shows one model and leaves all as it was; nothing is sent in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <mutex>

#include "tests/exchange/agreed_weights.h"
#include "tests/exchange/local_ranks.h"
#include "tests/support/error_of.h"
#include "trireme/ops/table.h"
#include "trireme/plan/agreement.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::testing {
namespace {

struct LocalCase {
  std::string name, exchange;
  std::string optimizer = "sgd";
};

std::vector<LocalCase> local_cases() {
  return {
      {"local", R"({"method": "local", "steps": 3})"},
      {"local_momentum", R"({"method": "local", "steps": 2})", "momentum"},
      {"fedavg", R"({"method": "fedavg", "steps": 2})"},
      {"fedavg_of_some", R"({"method": "fedavg", "steps": 2, "fraction": 0.6, "seed": 5})"},
      {"fedavg_of_clients", R"({"method": "fedavg", "steps": 2, "clients": 10, "fraction": 0.5})",
       "momentum"},
      {"diloco", R"({"method": "diloco", "steps": 2, "outer_rate": 0.7, "outer_momentum": 0.9})"},
      {"delayed", R"({"method": "delayed", "delay": 2})"},
      {"delayed_uncorrected", R"({"method": "delayed", "delay": 2, "correction": false})"},
      {"delayed_uncorrected_adamw", R"({"method": "delayed", "delay": 5, "correction": false})", "adamw"},
      {"delayed_less_than_a_period", R"({"method": "delayed", "delay": 1, "period": 3})"},
      {"delayed_by_periods", R"({"method": "delayed", "delay": 5, "period": 2})"},
      {"delayed_by_one_period", R"({"method": "delayed", "delay": 2, "period": 2, "correction": false})"},
      {"not_delayed", R"({"method": "delayed", "delay": 0, "period": 2})"},
  };
}

void PrintTo(const LocalCase& one, std::ostream* out) {
  *out << one.exchange;
}

class Local : public ::testing::TestWithParam<LocalCase> {};
INSTANTIATE_TEST_SUITE_P(All, Local, ::testing::ValuesIn(local_cases()),
                         [](const auto& tested) { return tested.param.name; });

void expect_what_it_says(const LocalCase& how, Training training);

TEST_P(Local, IsWhatItSays) {
  expect_what_it_says(GetParam(), small_mlp());
}

// Each rank has the running statistics of its own rows.
TEST_P(Local, IsWhatItSaysWithBatchNorm) {
  expect_what_it_says(GetParam(), small_resnet());
}

void expect_what_it_says(const LocalCase& how, Training training) {
  training.steps = 13;
  training.rate = training.model.family == "mlp" ? 0.3 : 0.03;
  training.optim.kind = how.optimizer;
  training.optim.momentum = 0.9;
  if (how.optimizer == "adamw") training.rate = 0.01;
  constexpr size_t kRanks = 3;
  const Plan plan = plan_of("data:3", how.exchange);
  const LocalRun run = run_of(plan, training);
  bool apart = false;
  for (const auto& [name, start] : run.start) {
    AgreedWeights reference(plan.agreement, Role::kParameter, training.optim, start, kRanks);
    for (size_t step = 0; step < run.steps.size(); ++step) {
      const LocalStep& record = run.steps[step];
      reference.advance(static_cast<int64_t>(step) + 1, record.gradients.at(name), record.counts,
                        training.rate);
      for (size_t r = 0; r < kRanks; ++r) {
        const Floats& found = record.after.at(name)[r];
        apart |= found != record.after.at(name)[0];
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(static_cast<double>(found[i]), reference.of_rank(r)[i], 3e-6)
              << name << " of rank " << r << ", step " << step + 1 << ", element " << i;
      }
    }
  }
  for (const auto& [name, of_ranks] : run.steps[0].statistics) {
    AgreedWeights reference(plan.agreement, Role::kBuffer, training.optim, run.start_statistics.at(name),
                            kRanks);
    for (size_t step = 0; step < run.steps.size(); ++step) {
      const LocalStep& record = run.steps[step];
      EXPECT_NE(record.made.at(name)[0], record.made.at(name)[1]) << name;
      reference.advance_statistics(static_cast<int64_t>(step) + 1, record.made.at(name), record.counts);
      for (size_t r = 0; r < kRanks; ++r) {
        for (size_t i = 0; i < of_ranks[r].size(); ++i)
          ASSERT_NEAR(static_cast<double>(record.statistics.at(name)[r][i]), reference.of_rank(r)[i], 3e-6)
              << name << " of rank " << r << ", step " << step + 1 << ", element " << i;
      }
    }
  }
  // Or the test would not tell it from a dense sum.
  const bool same_weights = how.exchange.find("\"correction\": false") != std::string::npos;
  EXPECT_EQ(apart, !same_weights);
}

// A rank's program is sound by itself and with the others, and its text is read back.
TEST_P(Local, HasSoundPrograms) {
  const Training training = small_mlp();
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Plan plan = plan_of("data:2", GetParam().exchange);
  std::vector<Program> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(step_program(training.model, training.train, training.optim, training.shape, *device,
                                 {plan, rank, nullptr}));
  verify(ranks);
  EXPECT_EQ(print(parse_program(print(ranks[1]), ops())), print(ranks[1]));
}

// With what its sums send where they are awaited, not where they begin.
ActionList as_awaited(ActionList list) {
  std::erase_if(list.actions, [](const Action& action) { return action.kind == Action::Kind::kReduce; });
  for (Action& action : list.actions) {
    if (action.kind == Action::Kind::kAwait) action.kind = Action::Kind::kReduce;
  }
  return list;
}

// What ranks send together is what their programs say, and nothing between two agreements. A sum that goes on
// while steps are made is sent some time between its begin and its end.
void expect_promised_bytes(const LocalCase& how, Training training);

TEST_P(Local, SendsWhatItPromisesWhenItIsDue) {
  for (const Training& training : {small_mlp(), small_resnet()}) expect_promised_bytes(GetParam(), training);
}

void expect_promised_bytes(const LocalCase& how, Training training) {
  SCOPED_TRACE(training.model.family);
  training.steps = 12;
  const Plan plan = plan_of("data:2", how.exchange);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const LocalRun run = run_of(plan, training);
  std::vector<double> begun(run.steps.size()), awaited(run.steps.size());
  for (int rank = 0; rank < 2; ++rank) {
    const Program program = step_program(training.model, training.train, training.optim, training.shape,
                                         *device, {plan, rank, nullptr});
    EXPECT_EQ(bytes_sent(program, program.list(When::step())), 0);
    for (size_t step = 0; step < begun.size(); ++step) {
      for (const ActionList& list : program.lists) {
        if (!list.when.is_due_after(static_cast<int64_t>(step) + 1)) continue;
        begun[step] += bytes_sent(program, list);
        awaited[step] += bytes_sent(program, as_awaited(list));
      }
    }
  }
  EXPECT_GT(*std::ranges::max_element(begun), 0);
  double sent = 0, least = 0, most = 0;  // so far
  for (size_t step = 0; step < begun.size(); ++step) {
    sent += static_cast<double>(run.steps[step].bytes_sent[0] + run.steps[step].bytes_sent[1]);
    least += awaited[step];
    most += begun[step];
    EXPECT_GE(sent, least) << "step " << step + 1;
    EXPECT_LE(sent, most) << "step " << step + 1;
  }
}

std::map<std::string, Floats> last_weights(const std::string& exchange, const Training& training) {
  const LocalRun run = run_of(plan_of("data:2", exchange), training);
  std::map<std::string, Floats> result;
  for (const auto& [name, of_ranks] : run.steps.back().after) {
    EXPECT_EQ(of_ranks[0], of_ranks[1]) << name;
    result[name] = of_ranks[0];
  }
  return result;
}

void expect_near(const std::map<std::string, Floats>& found, const std::map<std::string, Floats>& expected) {
  for (const auto& [name, values] : expected) {
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(found.at(name)[i], values[i], 2e-6) << name;
  }
}

// By samples, whatever each rank counts; by the others where all count as many.
TEST(LocalSteps, InEveryStepAreTheDenseSum) {
  Training training = small_mlp();
  training.steps = 5;
  training.rate = 0.3;
  expect_near(last_weights(R"({"method": "fedavg", "steps": 1})", training),
              last_weights(R"("all_reduce")", training));
  const auto of_even = [&](const char* exchange) {
    return weights(record_of(plan_of("data:2", exchange), training));
  };
  for (const char* exchange : {R"({"method": "local", "steps": 1})",
                               R"({"method": "diloco", "steps": 1, "outer_rate": 1, "outer_momentum": 0})",
                               R"({"method": "delayed", "delay": 0})",
                               R"({"method": "delayed", "delay": 0, "correction": false})"}) {
    SCOPED_TRACE(exchange);
    expect_near(of_even(exchange), of_even(R"("all_reduce")"));
  }
}

Batch rows_of(Batch& whole, const std::vector<Part>& parts) {
  Batch own;
  own.rows = 0;
  for (const Part& part : parts) own.rows += part.size;
  for (auto& [name, tensor] : whole.tensors) {
    Shape shape = tensor.shape;
    const int64_t row = shape.elements() / shape[0];
    shape.set(0, own.rows);
    HostTensor& rows = own.tensors.emplace_back(name, HostTensor{}).second;
    rows.reset(tensor.dtype, shape);
    const auto copy = [&](auto from, auto to) {
      auto next = to.begin();
      for (const Part& part : parts)
        next = std::copy_n(from.begin() + part.begin * row, part.size * row, next);
    };
    if (name == "labels")
      copy(tensor.values<int32_t>(), rows.values<int32_t>());
    else
      copy(tensor.values<float>(), rows.values<float>());
  }
  return own;
}

// What a rank makes of its rows is what one rank alone makes of them, running statistics too.
TEST(LocalSteps, NormaliseTheRowsOfARankByThemselves) {
  for (const int64_t microbatches : {1, 2}) {
    Training training = small_resnet();
    training.train.accumulate = microbatches;
    const Plan plan = plan_of("data:3", R"({"method": "local", "steps": 9})");
    std::mutex mutex;
    comm::run_rank_threads(3, [&](comm::Context& context) {
      MeshCommunicator communicator(plan.mesh, context);
      const std::unique_ptr<Device> device = make_cpu_device(1);
      Trainer trainer(training.model, training.train, training.optim, training.shape, *device,
                      {plan, context.rank(), &communicator});
      Trainer one(training.model, training.train, training.optim,
                  {training.shape.rows / 3, training.shape.sample}, *device);
      trainer.initialise(1);
      one.initialise(1);
      Batch batch = random_batch(training, 0), own = rows_of(batch, trainer.own_rows());
      trainer.forward_backward(batch, 0);
      one.forward_backward(own, 0);
      const std::lock_guard lock(mutex);
      for (const Role role : {Role::kPending, Role::kGradient})
        EXPECT_EQ(read(trainer, role), read(one, role));
    });
  }
}

TEST(LocalSteps, OfAllClientsAreThoseWithoutAFraction) {
  const Training training = small_mlp();
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const auto program = [&](const char* exchange) {
    return print(step_program(training.model, training.train, training.optim, training.shape, *device,
                              {plan_of("data:2", exchange), 1, nullptr}));
  };
  EXPECT_EQ(program(R"({"method": "fedavg", "steps": 4, "fraction": 1, "seed": 9})"),
            program(R"({"method": "fedavg", "steps": 4})"));
}

TEST(LocalSteps, OfEpochsAreStepsOnceTheDataIsKnown) {
  const Plan epochs = plan_of("data:2", R"({"method": "fedavg", "epochs": 3, "fraction": 0.5})");
  EXPECT_EQ(epochs.agreement.with_epochs_as_steps(7).rules(),
            plan_of("data:2", R"({"method": "fedavg", "steps": 21, "fraction": 0.5})").agreement.rules());
  const Plan steps = plan_of("data:2", R"({"method": "fedavg", "steps": 5})");
  EXPECT_EQ(steps.agreement.with_epochs_as_steps(7).rules(), steps.agreement.rules());
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Training training = small_mlp();
  EXPECT_THAT(error_of([&] {
                step_program(training.model, training.train, training.optim, training.shape, *device,
                             {epochs, 0, nullptr});
              }),
              ::testing::HasSubstr("depends on the data"));
}

// Two ranks that count 12 and 18 targets. Weights of `share` and 1 − share of the ranks, moments of half
// each.
void expect_meeting(const char* exchange, double share) {
  SCOPED_TRACE(exchange);
  Training training = small_mlp();
  training.optim.kind = "adamw";
  const Plan plan = plan_of("data:2", exchange);
  std::map<std::string, std::vector<Floats>> before, within, after;
  std::mutex mutex;
  comm::run_rank_threads(2, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(training.model, training.train, training.optim, training.shape, *device,
                    {plan, context.rank(), &communicator});
    trainer.initialise(1);
    for (int64_t step = 0; step < 3; ++step) {
      Batch batch = random_batch(training, step);
      const std::span<int32_t> labels = batch.at("labels").values<int32_t>();
      labels[1] = labels[2] = -1;  // of the first rank's six
      trainer.step(batch, step, 0.01);
    }
    const auto note = [&](std::map<std::string, std::vector<Floats>>& to) {
      const std::lock_guard lock(mutex);
      for (const Role role : {Role::kParameter, Role::kOptimizer}) {
        for (auto& [name, values] : read(trainer, role)) {
          to[name].resize(2);
          to[name][context.rank()] = values;
        }
      }
    };
    note(before);
    {
      const Trainer::Meeting meeting(trainer);
      note(within);
    }
    note(after);
  });
  EXPECT_EQ(before, after);
  int moments = 0;
  for (const auto& [name, of_ranks] : within) {
    EXPECT_EQ(of_ranks[0], of_ranks[1]) << name;
    const bool is_moment = name.starts_with("m.") || name.starts_with("v.");
    moments += is_moment;
    const double first = is_moment ? 0.5 : share;
    for (size_t i = 0; i < of_ranks[0].size(); ++i) {
      const double one = before[name][0][i], other = before[name][1][i];
      ASSERT_NEAR(of_ranks[0][i], first * one + (1 - first) * other, 1e-6 * (std::abs(one) + std::abs(other)))
          << name;
    }
    EXPECT_NE(before[name][0], before[name][1]) << name;
  }
  EXPECT_GT(moments, 0);
}

TEST(LocalSteps, AMeetingShowsOneModelAndLeavesAllAsItWas) {
  expect_meeting(R"({"method": "local", "steps": 100})", 0.5);
  expect_meeting(R"({"method": "fedavg", "steps": 100})", 0.4);
}

// Nobody has counted a target since then.
TEST(LocalSteps, AMeetingRightBehindARoundIsWhatWasAgreedOn) {
  for (const char* exchange :
       {R"({"method": "fedavg", "steps": 4})", R"({"method": "fedavg", "steps": 2, "clients": 4})"}) {
    SCOPED_TRACE(exchange);
    const Training training = small_mlp();
    const Plan plan = plan_of("data:2", exchange);
    comm::run_rank_threads(2, [&](comm::Context& context) {
      MeshCommunicator communicator(plan.mesh, context);
      const std::unique_ptr<Device> device = make_cpu_device(1);
      Trainer trainer(training.model, training.train, training.optim, training.shape, *device,
                      {plan, context.rank(), &communicator});
      trainer.initialise(1);
      for (int64_t step = 0; step < 4; ++step) {
        Batch batch = random_batch(training, step);
        trainer.step(batch, step, 0.1);
      }
      const std::map<std::string, Floats> before = read(trainer, Role::kParameter);
      const Trainer::Meeting meeting(trainer);
      EXPECT_EQ(read(trainer, Role::kParameter), before);  // halves of the same are exact
    });
  }
}

// What a rank has not learned from does not count: where its step is skipped, the model is that of the other.
TEST(LocalSteps, OfFedAvgCountNoSkippedSteps) {
  const Training training = small_mlp();
  const Plan plan = plan_of("data:2", R"({"method": "fedavg", "steps": 100})");
  std::array<std::map<std::string, Floats>, 2> own, met;
  comm::run_rank_threads(2, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(training.model, training.train, training.optim, training.shape, *device,
                    {plan, context.rank(), &communicator});
    trainer.initialise(1);
    if (context.rank() == 0) trainer.loss_scale = 3e38;  // gradients overflow, the loss does not
    Batch batch = random_batch(training, 0);
    EXPECT_EQ(trainer.step(batch, 0, 0.1).skipped, context.rank() == 0);
    const auto rank = static_cast<size_t>(context.rank());
    own[rank] = read(trainer, Role::kParameter);
    const Trainer::Meeting meeting(trainer);
    met[rank] = read(trainer, Role::kParameter);
  });
  EXPECT_NE(own[0], own[1]);
  EXPECT_EQ(met[0], own[1]);
  EXPECT_EQ(met[1], own[1]);
}

}  // namespace
}  // namespace trireme::testing

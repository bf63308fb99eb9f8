// Programs that run on the CPU: results against a computation by hand, memory against the plan, and what the
// executor says when it is used wrongly or meets numbers that are none.
#include "trireme/runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// y = relu(x · w + b); the segment "step" also moves w by −lr times a given gradient.
const char* const kForward =
    "graph forward\n"
    "state %w: f32[2,3]\n"
    "state %b: f32[3]\n"
    "input %x: f32[2,2]\n"
    "%h: f32[2,3] = matmul(%x, %w)\n"
    "%s: f32[2,3] = add(%h, %b)\n"
    "%y: f32[2,3] = relu(%s)\n"
    "%total: f32[] = sum(%y) {dims=[0,1]}\n"
    "output y = %y\n"
    "output total = %total\n";
const char* const kStep =
    "graph step\n"
    "state %w: f32[2,3]\n"
    "input %g: f32[2,3]\n"
    "input %lr: f32[]\n"
    "input %scale: f32[]\n"
    "%w2: f32[2,3] = sgd(%w, %g, %lr, %scale)\n"
    "update %w <- %w2\n";

class ExecutorTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Executor> executor_of(std::initializer_list<const char*> texts, Device& device) {
    std::vector<StepSegment> segments;
    for (const char* text : texts) segments.emplace_back(parse_graph(text, ops()));
    return std::make_unique<Executor>(build_program(std::move(segments), workspace_query(device)), device);
  }
  static void set(Executor& executor, int segment, std::string_view name, const std::vector<float>& values) {
    executor.set_input(segment, name, values.data(), values.size() * sizeof(float));
  }
  static std::vector<float> output(Executor& executor, int segment, std::string_view name, size_t size) {
    std::vector<float> values(size);
    executor.read_output(segment, name, values.data(), size * sizeof(float));
    return values;
  }
  void write(std::string_view name, const std::vector<float>& values) {
    executor_->write_state(name, values.data(), values.size() * sizeof(float));
  }

  std::unique_ptr<Device> device_ = make_cpu_device(2);
  std::unique_ptr<Executor> executor_ = executor_of({kForward, kStep}, *device_);
};

TEST_F(ExecutorTest, RunsAnMlpAndUpdatesItsWeights) {
  write("w", {1, 2, 3, 4, 5, 6});
  write("b", {0.5, -100, 0});
  set(*executor_, 0, "x", {1, 0, -1, 1});
  executor_->run(0);
  EXPECT_THAT(output(*executor_, 0, "y", 6), ElementsAre(1.5, 0, 3, 3.5, 0, 3));
  EXPECT_EQ(executor_->scalar_output(0, "total"), 11);

  set(*executor_, 1, "g", {1, 1, 1, 0, 0, 2});
  set(*executor_, 1, "lr", {0.5});
  set(*executor_, 1, "scale", {2});
  executor_->run(1);
  std::vector<float> w(6);
  executor_->read_state("w", w.data(), w.size() * sizeof(float));
  EXPECT_THAT(w, ElementsAre(0, 1, 2, 4, 5, 4));

  executor_->run(0);  // with the same x and the new w
  EXPECT_THAT(output(*executor_, 0, "y", 6), ElementsAre(0.5, 0, 2, 4.5, 0, 2));
}

TEST_F(ExecutorTest, AnUpdateThatMustWaitIsCopiedAtTheEnd) {
  const auto executor =
      executor_of({"graph g\nstate %w: f32[2]\n%n: f32[2] = neg(%w)\n%e: f32[2] = add(%w, %w)\n"
                   "update %w <- %n\noutput twice = %e\n"},
                  *device_);
  const std::vector<float> start{1, -2};
  executor->write_state("w", start.data(), 8);
  executor->run(0);
  EXPECT_THAT(output(*executor, 0, "twice", 2), ElementsAre(2, -4));
  std::vector<float> w(2);
  executor->read_state("w", w.data(), 8);
  EXPECT_THAT(w, ElementsAre(-1, 2));
}

TEST_F(ExecutorTest, AllocatesWhatWasPlanned) {
  EXPECT_EQ(executor_->allocated_bytes(), executor_->program().peak_bytes());
}

TEST_F(ExecutorTest, TimesEveryNodeThatComputes) {
  write("w", std::vector<float>(6, 1));
  write("b", std::vector<float>(3, 1));
  set(*executor_, 0, "x", {1, 1, 1, 1});
  std::vector<int> nodes;
  double total = 0;
  executor_->time([&](int segment, int node, double seconds) {
    EXPECT_EQ(segment, 0);
    nodes.push_back(node);
    total += seconds;
  });
  const auto begin = std::chrono::steady_clock::now();
  executor_->run(0);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  EXPECT_THAT(nodes, ElementsAre(0, 1, 2, 3));
  // Together they take some of the time that the segment takes.
  EXPECT_GT(total, 0);
  EXPECT_LE(total, whole.count());
  EXPECT_EQ(executor_->scalar_output(0, "total"), 18);
  executor_->time(nullptr);
  executor_->run(0);
  EXPECT_EQ(nodes.size(), 4u);
}

TEST_F(ExecutorTest, NamesTheOpThatMakesANumberNonFinite) {
  const auto executor = executor_of(
      {"graph g\ninput %x: f32[2]\n%a: f32[2] = neg(%x)\n%b: f32[2] = log(%a)\n%c: f32[2] = exp(%b)\n"
       "output c = %c\n"},
      *device_);
  set(*executor, 0, "x", {-1, -2});
  EXPECT_EQ(executor->find_non_finite(0), "");
  set(*executor, 0, "x", {-1, 3});
  EXPECT_THAT(executor->find_non_finite(0),
              AllOf(HasSubstr("log makes %b: f32[2]"), HasSubstr("from finite inputs")));
  set(*executor, 0, "x", {-1, std::numeric_limits<float>::infinity()});
  EXPECT_THAT(executor->find_non_finite(0),
              AllOf(HasSubstr("neg makes %a"), HasSubstr("%x, which was not finite already")));
}

TEST_F(ExecutorTest, SaysWhichNameOrSizeIsWrong) {
  const float value[6] = {};
  EXPECT_THAT([&] { executor_->set_input(0, "z", value, 4); },
              ThrowsMessage<Error>(HasSubstr("segment 'forward' has no input 'z'")));
  EXPECT_THAT([&] { executor_->set_input(0, "w", value, 24); },
              ThrowsMessage<Error>(HasSubstr("segment 'forward' has no input 'w'")))
      << "w is a state";
  EXPECT_THAT([&] { executor_->set_input(0, "x", value, 8); },
              ThrowsMessage<Error>(HasSubstr("input 'x' is f32[2,2] (16 bytes), but 8 bytes were given")));
  EXPECT_THAT([&] { executor_->scalar_output(0, "loss"); },
              ThrowsMessage<Error>(HasSubstr("segment 'forward' has no output 'loss'")));
  EXPECT_THAT([&] { executor_->state_type("z"); }, ThrowsMessage<Error>(HasSubstr("no state 'z'")));
  EXPECT_THAT([&] { executor_->write_state("b", value, 4); },
              ThrowsMessage<Error>(HasSubstr("state 'b' has 12 bytes, but 4 were given")));
  EXPECT_THAT([&] { executor_->write_state("b", 60, value, 8); },
              ThrowsMessage<Error>(
                  HasSubstr("state 'b' has 64 bytes of memory, but 8 from byte 60 on were asked for")));
}

// Each slot of a state is its own; a state with one slot is the same for all.
TEST_F(ExecutorTest, ASegmentRunsOnASlot) {
  const char* const text =
      "graph keep\n"
      "state %stash: f32[3]\n"
      "state %total: f32[3]\n"
      "input %x: f32[3]\n"
      "%sum: f32[3] = add(%stash, %x)\n"
      "%all: f32[3] = add(%total, %x)\n"
      "update %stash <- %sum\n"
      "update %total <- %all\n"
      "output sum = %sum\n";
  Executor executor(build_program({parse_graph(text, ops())}, workspace_query(*device_), {}, {{"stash", 3}}),
                    *device_);
  const State& stash = *executor.program().find_state("stash");
  const std::vector<float> zeros(3);
  for (int slot = 0; slot < 3; ++slot)
    executor.write_state("stash", stash.stride() * static_cast<size_t>(slot), zeros.data(), 12);
  executor.write_state("total", zeros.data(), 12);
  for (const auto& [slot, x] : {std::pair{0, 1.0f}, {2, 10.0f}, {1, 100.0f}, {2, 1000.0f}}) {
    set(executor, 0, "x", std::vector<float>(3, x));
    executor.run(0, slot);
    if (slot == 1) {
      EXPECT_EQ(output(executor, 0, "sum", 3), std::vector<float>(3, 100.0f));
    }
  }
  for (const auto& [slot, expected] : {std::pair{0, 1.0f}, {1, 100.0f}, {2, 1010.0f}}) {
    std::vector<float> found(3);
    executor.read_state("stash", stash.stride() * static_cast<size_t>(slot), found.data(), 12);
    EXPECT_EQ(found, std::vector<float>(3, expected)) << "slot " << slot;
  }
  std::vector<float> total(3);
  executor.read_state("total", total.data(), 12);
  EXPECT_EQ(total, std::vector<float>(3, 1111.0f));
}

TEST_F(ExecutorTest, RefusesAnOpWithoutAKernelForTheFormat) {
  EXPECT_THAT([&] { executor_of({"graph g\ninput %x: i32[2]\n%y: i32[2] = exp(%x)\n"}, *device_); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("device 'cpu' has no kernel for exp in i32"), HasSubstr("segment 'g'"))));
}

TEST(CpuDevice, RefusesNoThreads) {
  EXPECT_THAT([] { make_cpu_device(0); }, ThrowsMessage<Error>(HasSubstr("0 threads asked for")));
}

}  // namespace
}  // namespace trireme

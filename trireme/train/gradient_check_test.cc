#include "trireme/train/gradient_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "trireme/base/rng.h"
#include "trireme/base/text.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/trainer.h"

namespace trireme::gradient_check_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSteps = 6, kRows = 8;

// One bit of a result of forward or backward, while the gradients of a step are made for the first time or
// again; counted from 0.
struct Flip {
  int rank = 0;
  int64_t step = 0;
  int making = 0;
  uint64_t result = 0, element = 0;  // modulo how many there are
  int bit = 30;
  int makings = 1;  // in so many of them, one after the other
};

struct Outcome {
  std::vector<std::string> corrected;  // of each step, by rank 0
  std::vector<float> weights;          // of all ranks
  std::string error;
  bool has_flipped = false;
};

Batch batch_of(int64_t step) {
  Batch batch;
  HostTensor images, labels;
  images.reset(DType::f32, {kRows, 1, 3, 3});
  labels.reset(DType::i32, {kRows});
  uint64_t element = static_cast<uint64_t>(step) * 1000;
  for (float& value : images.values<float>()) value = uniform(RngKey{5, 6}, element++);
  for (int32_t& value : labels.values<int32_t>())
    value = static_cast<int32_t>(uniform(RngKey{5, 7}, element++) * 10);
  batch.tensors = {{"images", images}, {"labels", labels}};
  return batch;
}

Batch rows_of(Batch& whole, const std::vector<Part>& parts) {
  Batch batch;
  batch.parts = parts;
  for (auto& [name, tensor] : whole.tensors) {
    const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(kRows);
    HostTensor own;
    Shape shape = tensor.shape;
    shape.set(0, 0);
    own.reset(tensor.dtype, shape);
    for (const Part& part : parts) {
      const auto begin = tensor.bytes.begin() + static_cast<int64_t>(row_bytes) * part.begin;
      own.bytes.insert(own.bytes.end(), begin, begin + static_cast<int64_t>(row_bytes) * part.size);
      own.shape.set(0, own.shape[0] + part.size);
    }
    batch.tensors.emplace_back(name, own);
  }
  return batch;
}

bool may_flip(const Executor& executor, int segment, int node, const TensorView& result) {
  const Segment& of = executor.program().segments[static_cast<size_t>(segment)];
  const OpRecord& op = *of.graph.nodes[static_cast<size_t>(node)].op;
  // What is on its way is not a rank's to change.
  return of.kind == SegmentKind::kForwardBackward &&
         !(op.collective && op.collective->phase == OpRecord::Collective::Phase::kStart) &&
         result.dtype == DType::f32 && result.elements() > 0;
}

class Flipper {
 public:
  Flipper(Trainer& trainer, const Flip& flip) : trainer_(trainer), flip_(flip) {
    trainer.executor().observe([this](int segment, int node, int /*output*/, const TensorView& result) {
      if (!may_flip(trainer_.executor(), segment, node, result)) return;
      const uint64_t number = seen_++;
      // All of the first step are counted; a step makes as many as often as it makes its gradients.
      if (counted_ == 0 || step_ != flip_.step) return;
      const auto making = static_cast<int>(number / counted_);
      if (making < flip_.making || making >= flip_.making + flip_.makings) return;
      if (number % counted_ != flip_.result % counted_) return;
      const uint64_t element =
          (flip_.element + static_cast<uint64_t>(making)) % static_cast<uint64_t>(result.elements());
      auto* bytes = static_cast<std::byte*>(result.data) + element * sizeof(float);
      uint32_t bits = 0;
      std::memcpy(&bits, bytes, sizeof bits);
      bits ^= uint32_t{1} << flip_.bit;
      std::memcpy(bytes, &bits, sizeof bits);
      has_flipped = true;
    });
  }
  void begin(int64_t step) {
    if (step == 1) counted_ = seen_ / makings_in_first_;
    step_ = step;
    seen_ = 0;
  }
  void first_makes(uint64_t makings) { makings_in_first_ = makings; }
  bool has_flipped = false;

 private:
  Trainer& trainer_;
  const Flip flip_;
  int64_t step_ = 0;
  uint64_t seen_ = 0, counted_ = 0, makings_in_first_ = 1;
};

Outcome train(const std::string& plan_text, int ranks, int64_t recheck_every,
              const std::optional<Flip>& flip = std::nullopt) {
  ModelOptions model;
  model.family = "mlp";
  model.layers = 3;
  model.hidden = 16;
  model.classes = 10;
  Outcome outcome;
  std::vector<std::vector<float>> weights(static_cast<size_t>(ranks));
  try {
    comm::run_rank_threads(ranks, [&](comm::Context& context) {
      const Plan plan = read_plan(plan_text, ranks);
      MeshCommunicator communicator(plan.mesh, context);
      const std::unique_ptr<Device> device = make_cpu_device(1);
      Trainer trainer(model, {.batch = kRows, .threads = 1, .recheck_every = recheck_every}, {},
                      {kRows, {1, 3, 3}}, *device,
                      {plan, context.rank(), ranks > 1 ? &communicator : nullptr});
      trainer.initialise(1);
      std::optional<Flipper> flipper;
      if (flip && flip->rank == context.rank()) flipper.emplace(trainer, *flip);
      if (flipper) flipper->first_makes(recheck_every == 1 ? 2 : 1);
      for (int64_t step = 0; step < kSteps; ++step) {
        if (flipper) flipper->begin(step);
        Batch whole = batch_of(step);
        Batch batch = rows_of(whole, trainer.own_rows());
        const StepResult done = trainer.step(batch, step, 0.01);
        if (context.rank() == 0) outcome.corrected.push_back(done.corrected);
      }
      if (flipper) outcome.has_flipped = flipper->has_flipped;
      for (const NamedTensor& tensor : trainer.model_tensors()) {
        std::vector<float> read(static_cast<size_t>(tensor.view.elements()));
        trainer.executor().read_state(tensor.name, read.data(), tensor.view.bytes());
        std::vector<float>& all = weights[static_cast<size_t>(context.rank())];
        all.insert(all.end(), read.begin(), read.end());
      }
    });
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  for (const auto& own : weights) outcome.weights.insert(outcome.weights.end(), own.begin(), own.end());
  return outcome;
}

// What is found names the rank; and found or not, the numbers are those without it.
void expect_found(const std::string& plan, int ranks, int times) {
  const Outcome expected = train(plan, ranks, /*recheck_every=*/0);
  const Outcome checked = train(plan, ranks, 1);
  EXPECT_EQ(checked.weights, expected.weights) << plan;
  EXPECT_THAT(join(checked.corrected, ""), IsEmpty()) << plan;
  int found = 0;
  for (int i = 0; i < times; ++i) {
    const auto words = random_words(RngKey{11, 12}, static_cast<uint64_t>(i));
    const Flip flip{.rank = static_cast<int>(words[0] % static_cast<uint64_t>(ranks)),
                    .step = 1 + i % (kSteps - 1),
                    .making = i % 2,
                    .result = words[1],
                    .element = words[2],
                    .bit = static_cast<int>(words[3] % 32)};
    const Outcome outcome = train(plan, ranks, 1, flip);
    ASSERT_EQ(outcome.error, "") << plan << " flip " << i;
    EXPECT_TRUE(outcome.has_flipped) << plan << " flip " << i;
    EXPECT_EQ(outcome.weights, expected.weights) << plan << " flip " << i << " of rank " << flip.rank;
    const std::string text = join(outcome.corrected, "");
    if (text.empty()) continue;  // it changed nothing that anybody reads
    ++found;
    EXPECT_THAT(text, HasSubstr(fmt::format("the gradients of step {} were made again", flip.step + 1)));
    EXPECT_THAT(text, HasSubstr(fmt::format("differed: rank {} in ", flip.rank))) << plan << " flip " << i;
    EXPECT_EQ(text.find(", rank"), std::string::npos) << text;
  }
  EXPECT_GT(found, times / 2) << plan;
}

TEST(GradientCheck, FindsAndCorrectsFlipsOnOneRank) {
  expect_found("data", 1, 24);
}
TEST(GradientCheck, FindsNamesAndCorrectsFlipsOfDataParallelRanks) {
  expect_found("data", 3, 24);
}
TEST(GradientCheck, FindsNamesAndCorrectsFlipsUnderZero) {
  expect_found("zero1", 2, 12);
  expect_found("zero2", 2, 12);
  expect_found("zero3", 2, 24);
}
TEST(GradientCheck, FindsNamesAndCorrectsFlipsInAPipeline) {
  expect_found(R"({"mesh": "pipe:2", "accumulate": 2})", 2, 24);
}

// Others than those of high bits are not: a softmax, for one, makes a number of usual size of a huge one.
TEST(GradientCheck, BetweenItsStepsSuspiciousGradientsAloneAreMadeAgain) {
  const Outcome expected = train("data", 2, 0);
  int harmful = 0, found = 0;
  for (uint64_t result = 0; result < 40; ++result) {
    const Flip flip{.rank = 1, .step = 4, .result = result, .element = 3, .bit = 30};
    const Outcome outcome = train("data", 2, 1000, flip);
    EXPECT_EQ(outcome.error, "");
    harmful += train("data", 2, 0, flip).weights != expected.weights;
    if (outcome.corrected[4].empty()) continue;
    ++found;
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_THAT(outcome.corrected[4], HasSubstr("rank 1 in "));
  }
  RecordProperty("harmful", harmful);
  RecordProperty("found", found);
  EXPECT_GT(found, harmful / 3);
}

TEST(GradientCheck, GivesUpOnARankThatMakesOtherGradientsEachTime) {
  const Outcome outcome =
      train("data", 2, 1,
            Flip{.rank = 1, .step = 2, .making = 0, .result = 7, .element = 3, .bit = 21, .makings = 3});
  EXPECT_THAT(outcome.error, HasSubstr("no two are alike"));
  EXPECT_THAT(outcome.error, HasSubstr("rank 1 in "));
}

TEST(GradientCheck, NamesAStateThatChangesMeanwhile) {
  ModelOptions model;
  model.family = "mlp";
  model.layers = 2;
  model.hidden = 16;
  model.classes = 10;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(model, {.batch = kRows, .threads = 1, .recheck_every = 1}, {}, {kRows, {1, 3, 3}}, *device);
  trainer.initialise(1);
  const std::string moment = trainer.optimizer_tensors().front().name;
  trainer.executor().observe([&](int, int, int, const TensorView&) {
    const float value = 1e-30f;
    trainer.executor().write_state(moment, 4, &value, sizeof value);
  });
  Batch batch = batch_of(0);
  try {
    trainer.step(batch, 0, 0.01);
    FAIL() << "nothing was said";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr(fmt::format("the memory of rank 0 is at fault: {} has changed", moment)));
  }
}

}  // namespace
}  // namespace trireme::gradient_check_test

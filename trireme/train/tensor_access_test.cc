// Gradients between the halves of a step are means over the right number of targets, however the plan adds
// them up. Names and sizes: own_model_test.cc.
#include "trireme/train/tensor_access.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "tests/support/temp_folder.h"
#include "trireme/base/rng.h"
#include "trireme/comm/context.h"
#include "trireme/data/batch.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

constexpr int64_t kMicrobatch = 8, kMicrobatches = 2, kSeq = 4;

ModelOptions tied_model() {
  ModelOptions model;
  model.layers = 2;
  model.heads = 2;
  model.hidden = 8;
  model.vocab = 13;
  model.seq = kSeq;
  return model;
}

// Of the last rows, fewer targets count, so that ranks and microbatches have different numbers of them.
Batch text() {
  Batch batch;
  uint64_t element = 0;
  for (const char* name : {"ids", "targets"}) {
    HostTensor& tensor = batch.tensors.emplace_back(name, HostTensor()).second;
    tensor.reset(DType::i32, {kMicrobatch, kSeq});
    for (int32_t& id : tensor.values<int32_t>()) id = static_cast<int32_t>(13 * uniform({3, 4}, element++));
  }
  for (const int64_t row : {3, 6, 7}) batch.at("targets").row<int32_t>(row)[1] = kIgnoreTarget;
  batch.at("targets").row<int32_t>(7)[2] = kIgnoreTarget;
  return batch;
}

// Per parameter, all of it.
using Gradients = std::map<std::string, std::vector<double>>;

// What the ranks read, put together: parts side by side, means of ranks' own targets by how many these are,
// and what stages add to a shared weight added up. `share(rank)` is the part of all targets that a rank
// counts where it has a mean of its own.
Gradients gradients_of(const Plan& plan, const std::function<double(int rank)>& share) {
  Gradients result;
  std::mutex mutex;
  comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const int rank = context.rank();
    Trainer trainer(tied_model(), {.accumulate = kMicrobatches}, {}, {kMicrobatch / kMicrobatches, {kSeq}},
                    *device, {plan, rank, plan.mesh.ranks() > 1 ? &communicator : nullptr});
    trainer.initialise(1);
    Batch batch = text();
    trainer.forward_backward(batch, 0);
    for (const std::string& name : parameter_names(trainer)) {
      const std::vector<float> values = read_gradient(trainer, name);
      const StatePart& part = trainer.program().find_state("grad." + name)->part;
      const std::lock_guard lock(mutex);
      std::vector<double>& whole = result[name];
      whole.resize(part.whole.elements());
      for_each_run(part, [&](int64_t begin, int64_t local, int64_t count) {
        for (int64_t i = 0; i < count; ++i) whole[begin + i] += share(rank) * values[local + i];
      });
    }
  });
  return result;
}

void expect_same(const Gradients& found, const Gradients& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (const auto& [name, values] : expected) {
    double worst = 0, largest = 0;
    ASSERT_EQ(found.at(name).size(), values.size()) << what << " " << name;
    for (size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::abs(found.at(name)[i] - values[i]));
      largest = std::max(largest, std::abs(values[i]));
    }
    EXPECT_GT(largest, 1e-6) << name;
    EXPECT_LT(worst, 1e-5 * largest) << what << " " << name;
  }
}

Gradients of_one_rank() {
  return gradients_of({}, [](int) { return 1.0; });
}

// Of 8·4 − 4 targets that count, by rows: 4, 4, 4, 3 in the first microbatch and 4, 4, 3, 2 in the second.
double share_of_half_the_rows(int rank) {
  return (rank % 2 == 0 ? 16.0 : 12.0) / 28;
}

TEST(ReadGradient, IsTheMeanOverAllTargetsWhereRanksHoldParts) {
  const Gradients expected = of_one_rank();
  for (const char* plan : {"zero2", "zero3"})
    expect_same(gradients_of(read_plan(plan, 2), [](int) { return 1.0; }), expected, plan);
}

TEST(ReadGradient, IsTheMeanOverOwnTargetsWhereRanksHoldAddends) {
  const Gradients expected = of_one_rank();
  for (const char* plan : {"data", "zero1"})
    expect_same(gradients_of(read_plan(plan, 2), share_of_half_the_rows), expected, plan);
}

// The head is tied to the embedding, so that both stages add to one gradient.
TEST(ReadGradient, IsThereOnEveryStageOfAPipeline) {
  const Gradients expected = of_one_rank();
  expect_same(gradients_of(parse_plan(R"({"mesh": "pipe:2", "schedule": "1f1b"})", "the plan"),
                           [](int) { return 1.0; }),
              expected, "1f1b");
  // Rank 2·stage + data.
  expect_same(gradients_of(parse_plan(R"({"mesh": "pipe:2 data:2", "schedule": "gpipe"})", "the plan"),
                           share_of_half_the_rows),
              expected, "with data");
  expect_same(gradients_of(parse_plan(R"({"mesh": "pipe:2 data:2", "schedule": "gpipe", "preset": "zero3"})",
                                      "the plan"),
                           [](int) { return 1.0; }),
              expected, "with zero3");
}

// Chunks that are computed one after another add up what they give to a shared weight apart.
TEST(ReadGradient, OfChunksOfOneRankIsOne) {
  const TempFolder scratch;
  Plan plan;
  plan.offload = Plan::Offload{.folder = scratch.path().string(), .weights = true, .gradients = true};
  expect_same(gradients_of(plan, [](int) { return 1.0; }), of_one_rank(), "offload");
}

}  // namespace
}  // namespace trireme

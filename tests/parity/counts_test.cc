// What a step really sends, as the transport counted it, against the closed forms; and what a rank really
// keeps. Ranks are threads; a step is a whole one, on a small gpt whose every dim is a multiple of eight.
// Sums are over all ranks: what is sent by all together does not depend on who has which part.
#include <gtest/gtest.h>

#include <mutex>

#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/trainer.h"

namespace trireme::parity {
namespace {

constexpr int64_t kLayers = 2, kHidden = 32, kSeq = 8, kRows = 8;

ModelOptions small_gpt() {
  ModelOptions model;
  model.layers = kLayers;
  model.heads = 4;
  model.hidden = kHidden;
  model.vocab = 32;
  model.seq = kSeq;
  return model;
}

Batch make_batch(int64_t rows) {
  Batch batch;
  batch.rows = rows;
  for (const char* name : {"ids", "targets"}) {
    HostTensor& tensor = batch.tensors.emplace_back(name, HostTensor{}).second;
    tensor.reset(DType::i32, {rows, kSeq});
    int32_t next = 0;
    for (int32_t& id : tensor.values<int32_t>()) id = next++ % 32;
  }
  return batch;
}

struct Counted {
  double parameter_bytes = 0;  // of all parameters, whole
  double sent_bytes = 0;       // in one step, by all ranks
  double kept_bytes = 0;       // weights, gradients and moments, of all ranks
};

Counted run(const std::string& mesh, const std::string& preset, int64_t microbatches = 1) {
  TrainOptions train;
  train.accumulate = microbatches;
  const Plan plan{parse_mesh(mesh), preset};
  Counted counted;
  std::mutex mutex;
  comm::run_rank_threads(
      plan.mesh.ranks(),
      [&](comm::Context& context) {
        // Rings send what the closed forms say for any number of ranks and size.
        MeshCommunicator communicator(plan.mesh, context, comm::Algorithm::ring);
        const std::unique_ptr<Device> device = make_cpu_device(1);
        Trainer trainer(small_gpt(), train, {}, {kRows, {kSeq}}, *device,
                        {plan, context.rank(), context.ranks() > 1 ? &communicator : nullptr});
        trainer.initialise(1);
        Batch batch = make_batch(microbatches * kRows);
        const uint64_t before = context.transport().counters().bytes_sent;
        trainer.step(batch, 0, 1e-3);
        const uint64_t sent = context.transport().counters().bytes_sent - before;
        const std::lock_guard lock(mutex);
        counted.sent_bytes += static_cast<double>(sent);
        for (const State& slot : trainer.program().states) {
          if (slot.type.shape.rank() > 0) counted.kept_bytes += static_cast<double>(slot.type.bytes());
        }
        counted.parameter_bytes = static_cast<double>(trainer.parameter_count()) * 4;
      },
      /*timeout_seconds=*/20);
  return counted;
}

// Beside tensors there are loss, count and the squares of the gradient. Each is four bytes, or a line of
// memory when it travels with a neighbour.
void expect_tensors_and_scalars(double found, double tensors, double ranks, int scalars) {
  const double each_byte = 2 * (ranks - 1);  // is sent so often by an all_reduce
  EXPECT_GE(found, tensors + each_byte * 4 * scalars);
  EXPECT_LT(found, tensors + each_byte * 64 * scalars);
}

TEST(Counts, DataParallelismSendsEachGradientByAllReduce) {
  EXPECT_EQ(run("data:1", "data").sent_bytes, 0);
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const Counted counted = run("data:" + std::to_string(ranks), "data");
    expect_tensors_and_scalars(counted.sent_bytes, 2.0 * (ranks - 1) * counted.parameter_bytes, ranks, 2);
    EXPECT_EQ(counted.kept_bytes, ranks * 4 * counted.parameter_bytes);
  }
}

// Per parameter 4 bytes of weight, 4 of gradient, 8 of moments. Of one microbatch all presets split all of
// them.
TEST(Counts, ZeroKeepsWhatItDoesNotSplitOnEveryRank) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const std::string mesh = "data:" + std::to_string(ranks);
    for (const char* preset : {"zero1", "zero2"}) {
      const Counted single = run(mesh, preset);
      EXPECT_EQ(single.kept_bytes, single.parameter_bytes * 4) << preset << " " << ranks;
    }
    const Counted one = run(mesh, "zero1", 2), two = run(mesh, "zero2", 2), three = run(mesh, "zero3", 2);
    EXPECT_EQ(one.kept_bytes, one.parameter_bytes * (2 * ranks + 2)) << ranks;
    EXPECT_EQ(two.kept_bytes, two.parameter_bytes * (ranks + 3)) << ranks;
    EXPECT_EQ(three.kept_bytes, three.parameter_bytes * 4) << ranks;
  }
}

// Powers of two: parts that are not even are padded.
TEST(Counts, ZeroSendsAsMuchAndThreeHalfAsMuchAgain) {
  for (const int ranks : {2, 4, 8}) {
    const std::string mesh = "data:" + std::to_string(ranks);
    const double once = 2.0 * (ranks - 1);
    const Counted one = run(mesh, "zero1"), two = run(mesh, "zero2"), three = run(mesh, "zero3");
    const double bytes = one.parameter_bytes;
    expect_tensors_and_scalars(one.sent_bytes, once * bytes, ranks, 3);
    expect_tensors_and_scalars(two.sent_bytes, once * bytes, ranks, 3);
    // Biases and the position table are not gathered for the backward part.
    EXPECT_LE(three.sent_bytes, 1.5 * once * bytes + once * 64 * 3);
    EXPECT_GT(three.sent_bytes, 1.45 * once * bytes);
  }
}

TEST(Counts, MegatronAddsUpActivationsFourTimesABlock) {
  for (const int ranks : {2, 4}) {
    const std::string mesh = "tensor:" + std::to_string(ranks);
    const Counted tensor = run(mesh, "megatron"), sequence = run(mesh, "megatron+sequence");
    // And once for the embedding, once backward for the head; three numbers a token for the loss.
    const double tokens = kRows * kSeq;
    const double tensors = 2.0 * (ranks - 1) * 4 * tokens * ((4 * kLayers + 2) * kHidden + 3);
    expect_tensors_and_scalars(tensor.sent_bytes, tensors, ranks, 1);
    // Gradients of what is not split are added up, of what is made of a part of the sequence.
    EXPECT_LE(sequence.sent_bytes, 1.1 * tensor.sent_bytes);
  }
}

}  // namespace
}  // namespace trireme::parity

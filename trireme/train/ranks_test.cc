// What ranks must agree on though each sees other rows: what to skip, what to count, and which rows are
// whose.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "trireme/base/rng.h"
#include "trireme/data/batch.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

constexpr int64_t kUneven = 7;  // of a microbatch; uneven on two ranks and on three

Batch random_batch(int64_t rows) {
  Batch batch;
  HostTensor images, labels;
  images.reset(DType::f32, {rows, 1, 3, 3});
  labels.reset(DType::i32, {rows});
  uint64_t element = 0;
  for (float& value : images.values<float>()) value = uniform(RngKey{5, 6}, element++);
  for (int32_t& value : labels.values<int32_t>())
    value = static_cast<int32_t>(uniform(RngKey{5, 7}, element++) * 10);
  batch.tensors = {{"images", images}, {"labels", labels}};
  return batch;
}

// The rows that a loader makes for a rank.
Batch rows_of(Batch& whole, const std::vector<Part>& parts) {
  Batch batch;
  batch.parts = parts;
  for (auto& [name, tensor] : whole.tensors) {
    const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
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

// Runs the body on each rank with a trainer of an mlp.
void on_ranks(int ranks, const TrainOptions& train,
              const std::function<void(Trainer& trainer, int rank)>& body) {
  ModelOptions model;
  model.family = "mlp";
  model.layers = 2;
  model.hidden = 16;
  model.classes = 10;
  comm::run_rank_threads(ranks, [&](comm::Context& context) {
    const Plan plan{.mesh = Mesh({{"data", ranks}})};
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(model, train, {}, {kUneven, {1, 3, 3}}, *device,
                    {plan, context.rank(), ranks > 1 ? &communicator : nullptr});
    trainer.initialise(1);
    body(trainer, context.rank());
  });
}

std::vector<float> weights(Trainer& trainer) {
  std::vector<float> values;
  for (const NamedTensor& tensor : trainer.model_tensors()) {
    std::vector<float> read(tensor.view.elements());
    trainer.executor().read_state(tensor.name, read.data(), tensor.view.bytes());
    values.insert(values.end(), read.begin(), read.end());
  }
  return values;
}

TEST(Ranks, ARankNeedsOnlyItsOwnRows) {
  TrainOptions train;
  train.accumulate = 2;
  for (const int ranks : {1, 2, 3}) {
    std::vector<std::vector<float>> all(ranks), own(ranks);
    std::vector<int64_t> taken(2 * kUneven, 0);
    std::mutex mutex;
    on_ranks(ranks, train, [&](Trainer& trainer, int rank) {
      Batch whole = random_batch(2 * kUneven);
      trainer.step(whole, 0, 1e-2);
      all[rank] = weights(trainer);
    });
    on_ranks(ranks, train, [&](Trainer& trainer, int rank) {
      Batch whole = random_batch(2 * kUneven), part = rows_of(whole, trainer.own_rows());
      trainer.step(part, 0, 1e-2);
      own[rank] = weights(trainer);
      const std::lock_guard lock(mutex);
      for (const Part& rows : trainer.own_rows()) {
        for (int64_t row = rows.begin; row < rows.end(); ++row) ++taken[row];
      }
    });
    EXPECT_EQ(own, all);
    EXPECT_EQ(taken, std::vector<int64_t>(2 * kUneven, 1));  // each row by one rank
  }
}

TEST(Ranks, RowsThatAreNotThereAreTold) {
  on_ranks(1, {}, [&](Trainer& trainer, int) {
    Batch whole = random_batch(kUneven), part = rows_of(whole, {{2, 3}});
    EXPECT_THROW(trainer.step(part, 0, 1e-2), Error);
    Batch few = random_batch(kUneven - 1);
    EXPECT_THROW(trainer.step(few, 0, 1e-2), Error);
  });
}

// The last batch of held-out data ends in padding, which one rank may have nothing but.
TEST(Ranks, AnUnevenEndOfAnEpochCountsEveryRowOnce) {
  Evaluation expected;
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, {}, [&](Trainer& trainer, int rank) {
      Batch whole = random_batch(kUneven);
      for (int64_t row = 4; row < kUneven; ++row) whole.at("labels").values<int32_t>()[row] = kIgnoreTarget;
      Batch part = rows_of(whole, trainer.own_evaluation_rows());
      Evaluation total;
      trainer.evaluate(part, total);
      if (rank != 0) return;
      EXPECT_EQ(total.count, 4);
      if (ranks == 1) expected = total;
      EXPECT_EQ(total.correct, expected.correct);
      EXPECT_NEAR(total.loss, expected.loss, 1e-5 * expected.loss);
    });
  }
}

// In f16 the rows of one rank overflow: no rank changes anything, and all lower the loss scale.
TEST(Ranks, AnOverflowOnOneRankIsSkippedByAll) {
  TrainOptions train;
  train.precision = "f16";
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, train, [&](Trainer& trainer, int rank) {
      const std::vector<float> before = weights(trainer);
      const double scale = trainer.loss_scale;
      Batch batch = random_batch(kUneven);
      trainer.loss_scale = 1e30;                       // far too large for every row that counts…
      for (int64_t row = 0; row < kUneven - 1; ++row)  // …which is the last one alone
        batch.at("labels").values<int32_t>()[row] = kIgnoreTarget;
      const StepResult result = trainer.step(batch, 0, 1e-2);
      EXPECT_TRUE(result.skipped) << "rank " << rank << " of " << ranks;
      EXPECT_EQ(weights(trainer), before) << "rank " << rank << " of " << ranks;
      EXPECT_EQ(trainer.loss_scale, 5e29) << "rank " << rank << " of " << ranks;
      trainer.loss_scale = scale;
      EXPECT_FALSE(trainer.step(batch, 1, 1e-2).skipped) << "rank " << rank << " of " << ranks;
      EXPECT_NE(weights(trainer), before);
    });
  }
}

// One call of the transport: the segment and op that make it, and the bytes of the tensors that share it.
// Only all_reduce is known by its size: parts of other collectives are padded to the largest.
using Call = std::pair<std::string, std::vector<size_t>>;

// What a rank's program asks of the transport along one axis, in order.
std::vector<Call> calls_along(const Program& program, std::string_view axis) {
  std::vector<Call> calls;
  for (const Segment& segment : program.segments) {
    for (const Node& node : segment.graph.nodes) {
      if (!node.op->collective || node.attrs.text("axis") != axis) continue;
      std::vector<int64_t> runs(node.outputs.size(), 1);
      if (node.attrs.has("runs")) runs = node.attrs.integers("runs");
      size_t tensor = 0;
      for (int64_t run : runs) {
        Call& call = calls.emplace_back(fmt::format("{}:{}", segment.graph.name, node.op->name),
                                        std::vector<size_t>{});
        for (int64_t i = 0; i < run; ++i, ++tensor) {
          if (node.op->collective->kind == CollectiveKind::kAllReduce && node.op->collective->sends())
            call.second.push_back(segment.graph.type(node.outputs[tensor]).bytes());
        }
      }
    }
  }
  return calls;
}

std::vector<Call> shared(std::vector<Call> calls) {
  std::erase_if(calls, [](const Call& call) { return call.second.size() < 2; });
  return calls;
}

// Parts differ in size from rank to rank, and so does where they lie in memory.
TEST(Ranks, OfUnevenPlansMakeTheSameCalls) {
  struct Uneven {
    const char *mesh, *preset, *optimizer;
    int64_t heads, hidden;
  };
  for (const Uneven& one : {Uneven{"data:2 tensor:2", "zero1+megatron", "lars", 4, 12},
                            Uneven{"data:3 tensor:2", "zero3+megatron", "sgd", 5, 20},
                            Uneven{"tensor:2 data:3", "megatron", "adam", 3, 9}}) {
    ModelOptions model;
    model.layers = 2;
    model.heads = one.heads;
    model.hidden = one.hidden;
    model.vocab = 31;
    model.seq = 5;
    OptimOptions optim;
    optim.kind = one.optimizer;
    TrainOptions train;
    train.accumulate = 2;
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const Plan plan{.mesh = parse_mesh(one.mesh), .preset = one.preset};
    std::vector<Program> programs;
    for (int rank = 0; rank < plan.mesh.ranks(); ++rank)
      programs.push_back(step_program(model, train, optim, {6, {5}}, *device, {plan, rank, nullptr}));
    size_t together = 0;
    for (size_t a = 0; a < plan.mesh.axes().size(); ++a) {
      for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
        const auto calls = [&](int of) { return calls_along(programs[of], plan.mesh.axes()[a].name); };
        const int first = plan.mesh.members(rank, static_cast<int>(a))[0];
        EXPECT_EQ(calls(rank), calls(first)) << one.preset << " on " << one.mesh << ", ranks " << rank
                                             << " and " << first << " along " << plan.mesh.axes()[a].name;
        // On all ranks: the bits of what several groups add up do not depend on the company.
        EXPECT_EQ(shared(calls(rank)), shared(calls(0)))
            << one.preset << " on " << one.mesh << ", rank " << rank;
        together += shared(calls(rank)).size();
      }
    }
    EXPECT_GT(together, 0u) << one.preset << ": no call is shared, so little was tested";
  }
}

}  // namespace
}  // namespace trireme

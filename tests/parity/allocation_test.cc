// After its first step a trainer touches the heap no more: every byte was planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "golden.h"
#include "tests/support/allocation_count.h"
#include "trireme/run/replica_check.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::parity {
namespace {

class Allocation : public testing::TestWithParam<std::string> {};

TEST_P(Allocation, NoneAfterTheFirstStep) {
  Golden golden = read_golden(GetParam());
  golden.model.dropout = 0.1;
  for (const char* precision : {"f32", "bf16"}) {
    golden.train.precision = precision;
    const std::unique_ptr<Device> device = make_cpu_device(2);
    Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device);
    start(trainer, golden);
    Batch batch = make_batch(golden, 0);
    trainer.step(batch, 0, 1e-3);
    const int64_t before = allocation_count();
    for (int64_t step = 1; step < 4; ++step) trainer.step(batch, step, 1e-3);
    EXPECT_EQ(allocation_count() - before, 0) << precision;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Allocation,
                         testing::Values("gpt", "gpt_lamb", "llama_accumulated", "lstm", "mlp", "lenet_lars",
                                         "resnet20"),
                         [](const auto& param) { return param.param; });

// Nor does a comparison of replicas that are alike. Queues of the transport grow when one rank gets ahead of
// the other for the first time, whenever that is; so of many rounds one must do without.
TEST(Allocation, NoneWhenReplicasAreCompared) {
  const Golden golden = read_golden("gpt");
  comm::run_rank_threads(2, [&](comm::Context& context) {
    const Plan plan{.mesh = Mesh({{"data", 2}})};
    MeshCommunicator communicator(plan.mesh, context);
    const RankOptions ranks{plan, context.rank(), &communicator};
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device, ranks);
    trainer.initialise(1);
    ReplicaCheck check(trainer, ranks);
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (int round = 0; round < 20; ++round) {
      const int64_t before = allocation_count();
      for (int64_t step = 0; step < 5; ++step) check.compare(step);
      fewest = std::min(fewest, allocation_count() - before);
    }
    check.compare(10);  // so that no rank ends, or complains, while another counts
    EXPECT_EQ(fewest, 0);
  });
}

TEST(Allocation, IsCounted) {
  const int64_t before = allocation_count();
  const std::string text(1000, 'x');
  EXPECT_EQ(allocation_count() - before, 1) << text.size();
}

}  // namespace
}  // namespace trireme::parity

// Whatever a method sends and keeps, after its first steps nothing is allocated.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/exchange/ranks.h"
#include "tests/support/allocation_count.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::testing {
namespace {

// Queues of the transport grow when one rank gets ahead of the other for the first time, whenever that is; so
// of many rounds one must do without.
TEST(ExchangeAllocation, NoneInTheSteadyState) {
  for (const char* method : {R"("top_k")",
                             R"("dgc")",
                             R"("power_sgd")",
                             R"("one_bit")",
                             R"("threshold")",
                             R"("terngrad")",
                             R"("qsgd")",
                             R"("signum")",
                             R"("shared_pattern")",
                             R"("pruned_ring")",
                             R"("atomo")",
                             R"("one_bit_adam")",
                             R"("local")",
                             R"("fedavg")",
                             R"("diloco")",
                             R"("delayed")",
                             R"("d_psgd")",
                             R"("sgp")",
                             R"("ad_psgd")",
                             R"({"method": "top_k", "code": "rice"})",
                             R"({"method": "qsgd", "code": "elias"})"}) {
    const Training training = small_mlp();
    const Plan plan = plan_of("data:2", method);
    comm::run_rank_threads(2, [&](comm::Context& context) {
      MeshCommunicator communicator(plan.mesh, context);
      const std::unique_ptr<Device> device = make_cpu_device(1);
      Trainer trainer(training.model, training.train, training.optim, training.shape, *device,
                      {plan, context.rank(), &communicator});
      trainer.initialise(1);
      Batch batch = random_batch(training, 0);
      int64_t fewest = std::numeric_limits<int64_t>::max(), step = 0;
      for (int round = 0; round < 20; ++round) {
        const int64_t before = allocation_count();
        for (int i = 0; i < 5; ++i) trainer.step(batch, step++, 1e-3);
        fewest = std::min(fewest, allocation_count() - before);
      }
      trainer.step(batch, step, 1e-3);  // so that no rank ends while another counts
      EXPECT_EQ(fewest, 0) << method;
    });
  }
}

}  // namespace
}  // namespace trireme::testing

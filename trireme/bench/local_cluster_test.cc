// Ranks that are not equally fast agree on what they are as a cluster.
#include "trireme/bench/local_cluster.h"

#include <gtest/gtest.h>

#include "trireme/mesh/cluster_file.h"

namespace trireme::bench {
namespace {

TEST(LocalCluster, IsWhatTheSlowestRankHasMeasured) {
  std::vector<Cluster> found(3);
  comm::run_rank_threads(3, [&](comm::Context& context) {
    Cluster own = read_cluster("a100");
    own.devices[0].launch_seconds = 1e-6 * (1 + context.rank());
    own.devices[0].at_once = {"adam"};
    found[static_cast<size_t>(context.rank())] =
        slowest_of(own, /*seconds=*/context.rank() == 1 ? 0.2 : 0.1, context);
  });
  Cluster expected = read_cluster("a100");
  expected.devices[0].launch_seconds = 2e-6;
  expected.devices[0].at_once = {"adam"};
  for (const Cluster& one : found) EXPECT_EQ(one, expected);
}

}  // namespace
}  // namespace trireme::bench

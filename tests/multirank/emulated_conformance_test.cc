// The conformance suite on threads over a link that is emulated.
#include <gtest/gtest.h>

#include "tests/multirank/thread_harness.h"
#include "trireme/comm/transport/emulated/emulated.h"

int main(int argc, char** argv) {
  using namespace trireme::comm;
  testing::InitGoogleTest(&argc, argv);
  ThreadHarness harness("emulated", /*most_ranks=*/5, [](std::shared_ptr<InprocHub> hub, int rank) {
    return std::make_unique<EmulatedTransport>(
        std::make_unique<InprocTransport>(std::move(hub), rank),
        parse_emulated_link("latency=20us,jitter=20us,bandwidth=10Gbit"));
  });
  register_conformance(harness);
  return RUN_ALL_TESTS();
}

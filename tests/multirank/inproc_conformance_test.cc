// The conformance suite on threads.
#include <gtest/gtest.h>

#include "tests/multirank/thread_harness.h"

int main(int argc, char** argv) {
  using namespace trireme::comm;
  testing::InitGoogleTest(&argc, argv);
  ThreadHarness harness("inproc", /*most_ranks=*/16, [](std::shared_ptr<InprocHub> hub, int rank) {
    return std::make_unique<InprocTransport>(std::move(hub), rank);
  });
  register_conformance(harness);
  return RUN_ALL_TESTS();
}

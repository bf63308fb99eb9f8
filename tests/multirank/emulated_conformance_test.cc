// The conformance suite on threads over a link that is emulated.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "tests/multirank/conformance.h"
#include "trireme/comm/transport/emulated/emulated.h"
#include "trireme/comm/transport/inproc/inproc.h"

namespace trireme::comm {
namespace {

class EmulatedHarness final : public Harness {
 public:
  std::string_view name() const override { return "emulated"; }
  std::vector<int> rank_counts() const override { return {1, 2, 3, 4, 5}; }
  std::vector<std::string> run(int ranks, const Body& body) override {
    const auto hub = std::make_shared<InprocHub>(ranks);
    std::mutex mutex;
    std::vector<std::string> failures;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          EmulatedTransport transport(std::make_unique<InprocTransport>(hub, rank),
                                      parse_emulated_link("latency=20us,jitter=20us,bandwidth=10Gbit"));
          body(transport);
        } catch (const std::exception& error) {
          const std::lock_guard lock(mutex);
          failures.push_back(fmt::format("rank {}: {}", rank, error.what()));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failures;
  }
};

}  // namespace
}  // namespace trireme::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  trireme::comm::EmulatedHarness harness;
  trireme::comm::register_conformance(harness);
  return RUN_ALL_TESTS();
}

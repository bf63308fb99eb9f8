// The conformance suite on forked processes over shared memory.
#include <gtest/gtest.h>

#include "tests/multirank/conformance.h"
#include "tests/support/fork_ranks.h"
#include "trireme/comm/transport/shm/shm_transport.h"

namespace trireme::comm {
namespace {

class ShmHarness final : public Harness {
 public:
  std::string_view name() const override { return "shm"; }
  std::vector<int> rank_counts() const override { return {1, 2, 3, 4, 5, 6, 7, 8}; }
  std::vector<std::string> run(int ranks, const Body& body) override {
    const auto ends = test::run_ranks(ranks, [&](test::ForkedRank& self) -> std::string {
      const auto transport = make_shm_transport(self.rendezvous());
      body(*transport);
      return "";
    });
    std::vector<std::string> failures;
    for (int r = 0; r < ranks; ++r) {
      if (ends[r].ok()) continue;
      failures.push_back(fmt::format("rank {}: {}{}", r, ends[r].text,
                                     ends[r].signal != 0 ? fmt::format(" (signal {})", ends[r].signal) : ""));
    }
    return failures;
  }
};

}  // namespace
}  // namespace trireme::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  trireme::comm::ShmHarness harness;
  trireme::comm::register_conformance(harness);
  return RUN_ALL_TESTS();
}

// The conformance suite on processes that talk over TCP.
#include <gtest/gtest.h>

#include "tests/multirank/conformance.h"
#include "trireme/comm/transport/tcp/test_job.h"

namespace trireme::comm {
namespace {

class TcpHarness final : public Harness {
 public:
  std::string_view name() const override { return "tcp"; }
  std::vector<int> rank_counts() const override { return {2, 3, 4, 5, 6, 7, 8}; }
  std::vector<std::string> run(int ranks, const Body& body) override {
    TestJob job(ranks, [&](Transport& transport) {
      body(transport);
      return "";
    });
    std::vector<std::string> failures;
    const auto reports = job.reports(kSeconds);
    for (int rank = 0; rank < ranks; ++rank) {
      if (!reports[rank].empty()) failures.push_back(fmt::format("rank {}: {}", rank, reports[rank]));
    }
    return failures;
  }

 private:
  static constexpr double kSeconds = 100;  // of one case
};

}  // namespace
}  // namespace trireme::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  trireme::comm::TcpHarness harness;
  trireme::comm::register_conformance(harness);
  return RUN_ALL_TESTS();
}

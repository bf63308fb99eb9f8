// The conformance suite on ranks that mpirun started. Every rank runs the same cases, each on a transport of
// its own. Cases that end a job end it for good under MPI, so they are left to tests/fault/launch_test.py,
// which starts a job for each.
#include <gtest/gtest.h>

#include "tests/multirank/conformance.h"
#include "trireme/comm/transport/mpi/mpi.h"

namespace trireme::comm {
namespace {

class MpiHarness final : public Harness {
 public:
  explicit MpiHarness(MpiSession& session) : session_(session), rendezvous_(session.rendezvous(60)) {}
  std::string_view name() const override { return "mpi"; }
  std::vector<int> rank_counts() const override { return {session_.ranks()}; }
  std::vector<std::string> run(int, const Body& body) override {
    std::string failure;
    try {
      const std::unique_ptr<Transport> transport = session_.transport();
      body(*transport);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    std::vector<std::string> failures;
    const std::vector<std::string> all = rendezvous_->exchange("failures", failure);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].empty()) failures.push_back(fmt::format("rank {}: {}", rank, all[rank]));
    }
    return failures;
  }

 private:
  MpiSession& session_;
  std::unique_ptr<Rendezvous> rendezvous_;
};

}  // namespace
}  // namespace trireme::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::unique_ptr<trireme::comm::MpiSession> session = trireme::comm::start_mpi();
  trireme::comm::MpiHarness harness(*session);
  trireme::comm::register_conformance(harness);
  return RUN_ALL_TESTS();
}

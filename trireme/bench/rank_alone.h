// What one rank computes in a step of a plan, without the others: its own program, its method of exchange
// included, with peers that answer at once.
#pragma once

#include "trireme/bench/step_setup.h"
#include "trireme/kernels/communicator.h"
#include "trireme/mesh/mesh.h"
#include "trireme/plan/plan.h"

namespace trireme::bench {

// Peers that say what this rank says, and take no time for it. Sums are this rank's own. Every message that
// this rank awaits becomes its own next one of the same tag and size; until it has sent one, it reads zeros.
class EchoCommunicator final : public Communicator {
 public:
  EchoCommunicator(const Mesh& mesh, int rank) : mesh_(mesh), rank_(rank) {}

  void start(const Collective& call) override;
  void start_send(int peer, const std::byte* data, int64_t bytes, int tag) override;
  void start_receive(int peer, std::byte* data, int64_t bytes, int tag) override;
  void wait(const std::byte* data) override;
  void progress() override {}
  void all_to_all(const AllToAll& call) override;
  void add_group(const std::string&, const std::vector<int>&) override {}
  Place place(std::string_view axis) const override;
  double timeout_seconds() const override { return 0; }
  std::shared_ptr<std::byte> allocate(size_t bytes) override;
  double take_seconds() override { return 0; }
  uint64_t take_bytes() override { return 0; }

 private:
  struct Message {
    std::byte* data;
    int64_t bytes;
    int tag;
  };

  Mesh mesh_;
  int rank_;
  std::vector<Message> awaited_;
};

// Seconds of a step of rank 0, the least of a few: others who use the machine only make it slower, and
// methods that hardly differ must not be told apart by that. Of steps behind a warm-up, where the method has
// one, and between those in which ranks agree, where they do not always. Of a plan with servers, what a rank
// of plain data parallelism computes. Throws Error as Trainer does.
double seconds_of_rank_alone(const StepSetup& setup, Plan plan);

}  // namespace trireme::bench

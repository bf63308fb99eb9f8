// The communicator of a rank on a mesh: one group of ranks per axis, one of all for messages, and those that
// were given a name, over one transport.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/context.h"
#include "trireme/kernels/communicator.h"
#include "trireme/mesh/mesh.h"
#include "trireme/runtime/lent_memory.h"

namespace trireme {

// An algorithm for the collectives along an axis, by its name; automatic for an axis that is not there.
using AxisAlgorithms = std::map<std::string, comm::Algorithm, std::less<>>;

class MeshCommunicator final : public Communicator {
 public:
  // Collective over all ranks of the job, of which the mesh has as many. Axes of one rank need no group.
  // A collective for which an axis' algorithm does not exist chooses its own.
  MeshCommunicator(const Mesh& mesh, comm::Context& context, const AxisAlgorithms& algorithms = {});
  // The same one along all axes.
  MeshCommunicator(const Mesh& mesh, comm::Context& context, comm::Algorithm algorithm);

  void start(const Collective& call) override;
  void start_send(int peer, const std::byte* data, int64_t bytes, int tag) override;
  void start_receive(int peer, std::byte* data, int64_t bytes, int tag) override;
  void wait(const std::byte* data) override;
  Arrived wait_any(std::span<const std::byte* const> data, Silence too_long = Silence::kOfAll) override;
  bool try_wait(const std::byte* data) override;
  void give_up(const std::string& reason) override { context_.transport().abort(reason); }
  bool bear_loss_of(const std::vector<int>& ranks) override;
  bool is_lost(int rank) const override;
  void progress() override;
  void all_to_all(const AllToAll& call) override;
  void add_group(const std::string& name, const std::vector<int>& members) override;
  std::shared_ptr<std::byte> allocate(size_t bytes) override;
  void lend(const std::shared_ptr<std::byte>& memory, size_t bytes) override { lent_.add(memory, bytes); }

  Place place(std::string_view axis) const override;
  double timeout_seconds() const override { return context_.timeout_seconds(); }
  bool adds_in_pairs() const override;
  double take_seconds() override;
  uint64_t take_bytes() override;

 private:
  struct Started {
    const std::byte* data;
    std::shared_ptr<const std::byte> memory;  // in which the data lies; null where its owner waits
    comm::Handle handle;                      // behind the memory: it waits when it is destroyed
    // For wait_any(): when it last looked, how often this had moved, and how long it has not since.
    comm::Clock::time_point looked = comm::Clock::now();
    uint64_t movements = 0;
    double silent_seconds = 0;
  };

  // Of one axis: its algorithm, where the collective has it.
  struct Options {
    comm::CollectiveOptions all_reduce, reduce_scatter, all_gather, all_to_all;
  };
  // The ranks along an axis, or some that were given a name.
  struct Ranks {
    std::string name;
    std::vector<int> members;
    Options options;
    std::unique_ptr<comm::Group> group;  // null for one rank
  };

  void add(const std::string& name, std::vector<int> members, comm::Algorithm algorithm);
  const Ranks& ranks(std::string_view name) const;
  const Ranks& several(std::string_view name) const;  // with a group
  comm::Group& messages() const;
  std::vector<Started>::iterator first_on(const std::byte* data);  // throws Error where there is none
  void note_silence(Started& one);
  template <typename Begin>
  void track(const std::byte* data, const Begin& begin);

  const Mesh mesh_;
  comm::Context& context_;
  std::vector<Ranks> groups_;         // per axis, then those with a name
  std::unique_ptr<comm::Group> all_;  // for messages, where no axis has all ranks
  comm::Group* messages_ = nullptr;   // null for one rank
  LentMemory lent_;
  std::vector<Started> under_way_;       // few at a time, in the order of their starts
  std::vector<int64_t> given_, gotten_;  // of an all_to_all; kept so that nothing is allocated
  double seconds_ = 0;
  uint64_t bytes_taken_ = 0;  // of the transport's counters
};

}  // namespace trireme

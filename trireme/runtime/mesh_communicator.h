// The communicator of a rank on a mesh: one group of ranks per axis, over one transport.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/context.h"
#include "trireme/kernels/communicator.h"
#include "trireme/mesh/mesh.h"

namespace trireme {

// An algorithm for the collectives along an axis, by its name; automatic for an axis that is not there.
using AxisAlgorithms = std::map<std::string, comm::Algorithm, std::less<>>;

class MeshCommunicator final : public Communicator {
 public:
  // Collective over all ranks of the job, of which the mesh has as many. Axes of one rank need no group.
  // A collective for which an axis' algorithm does not exist chooses its own.
  MeshCommunicator(const Mesh& mesh, comm::Context& context, const AxisAlgorithms& algorithms = {});

  void start_all_reduce(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                        Reduction reduction) override;
  void start_reduce_scatter(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                            Reduction reduction) override;
  void start_all_gather(std::string_view axis, std::byte* data, int64_t count, DType dtype) override;
  void wait(const std::byte* data) override;
  void progress() override;
  void all_to_all(std::string_view axis, const std::byte* from, std::byte* to, int64_t count,
                  DType dtype) override;
  std::shared_ptr<std::byte> allocate(size_t bytes) override;

  bool adds_in_pairs() const override;
  double take_seconds() override;

 private:
  struct Started {
    const std::byte* data;
    comm::Handle handle;
  };

  // Of one axis: its algorithm, where the collective has it.
  struct Options {
    comm::CollectiveOptions all_reduce, reduce_scatter, all_gather;
  };

  int find(std::string_view axis) const;
  comm::Group& group(std::string_view axis);
  template <typename Start>
  void start(const std::byte* data, const Start& begin);

  const Mesh mesh_;
  comm::Transport& transport_;
  std::vector<Options> options_;                      // per axis
  std::vector<std::unique_ptr<comm::Group>> groups_;  // per axis; null for one rank
  std::vector<Started> under_way_;                    // few at a time
  std::vector<int64_t> counts_;                       // of an all_to_all; kept so that nothing is allocated
  double seconds_ = 0;
};

}  // namespace trireme

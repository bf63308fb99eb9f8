// Groups along the axes of a mesh.
#include "trireme/runtime/mesh_communicator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"

namespace trireme {
namespace {

comm::ReduceOp op_of(Communicator::Reduction reduction) {
  return reduction == Communicator::Reduction::kMax ? comm::ReduceOp::max : comm::ReduceOp::sum;
}

comm::CollectiveOptions options_for(comm::Algorithm wanted, comm::Collective collective) {
  if (wanted == comm::Algorithm::automatic || wanted == comm::Algorithm::native) return {.algorithm = wanted};
  const std::vector<comm::Algorithm> known = comm::algorithms_of(collective);
  return {.algorithm = std::ranges::find(known, wanted) == known.end() ? comm::Algorithm::automatic : wanted};
}

}  // namespace

MeshCommunicator::MeshCommunicator(const Mesh& mesh, comm::Context& context, const AxisAlgorithms& algorithms)
    : mesh_(mesh) {
  if (mesh.ranks() != context.ranks()) {
    throw_error(
        "the mesh '{}' has {} ranks, but {} are running; start as many, or change the mesh of the plan",
        to_string(mesh), mesh.ranks(), context.ranks());
  }
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    groups_.emplace_back();
    const auto named = algorithms.find(mesh.axes()[a].name);
    const comm::Algorithm wanted = named == algorithms.end() ? comm::Algorithm::automatic : named->second;
    options_.push_back({.all_reduce = options_for(wanted, comm::Collective::all_reduce),
                        .reduce_scatter = options_for(wanted, comm::Collective::reduce_scatter),
                        .all_gather = options_for(wanted, comm::Collective::all_gather)});
    if (mesh.axes()[a].size == 1) continue;
    // Not make_unique: a group does not move, it is made in its place.
    groups_.back().reset(new comm::Group(
        context.group(mesh.axes()[a].name, mesh.members(context.rank(), static_cast<int>(a)))));
  }
}

int MeshCommunicator::find(std::string_view axis) const {
  const int found = mesh_.find(axis);
  TRIREME_CHECK(found >= 0);
  TRIREME_CHECK(groups_[found] != nullptr);
  return found;
}

comm::Group& MeshCommunicator::group(std::string_view axis) {
  return *groups_[find(axis)];
}

bool MeshCommunicator::adds_in_pairs() const {
  return std::ranges::all_of(options_, [](const Options& options) {
    return options.all_reduce.algorithm == comm::Algorithm::butterfly;
  });
}

template <typename Start>
void MeshCommunicator::run(const Start& start) {
  const auto begin = std::chrono::steady_clock::now();
  comm::Handle handle = start();
  handle.wait();
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void MeshCommunicator::all_reduce(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                                  Reduction reduction) {
  run([&] {
    return group(axis).all_reduce(data, count, dtype, op_of(reduction), options_[find(axis)].all_reduce);
  });
}

void MeshCommunicator::reduce_scatter(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                                      Reduction reduction) {
  run([&] {
    return group(axis).reduce_scatter(data, count, dtype, op_of(reduction),
                                      options_[find(axis)].reduce_scatter);
  });
}

void MeshCommunicator::all_gather(std::string_view axis, std::byte* data, int64_t count, DType dtype) {
  run([&] { return group(axis).all_gather(data, count, dtype, options_[find(axis)].all_gather); });
}

void MeshCommunicator::all_to_all(std::string_view axis, const std::byte* from, std::byte* to, int64_t count,
                                  DType dtype) {
  comm::Group& ranks = group(axis);
  counts_.assign(ranks.size(), count / ranks.size());
  run([&] { return ranks.all_to_all(from, counts_, to, counts_, dtype); });
}

double MeshCommunicator::take_seconds() {
  return std::exchange(seconds_, 0.0);
}

}  // namespace trireme

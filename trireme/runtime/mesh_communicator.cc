// Groups along the axes of a mesh.
#include "trireme/runtime/mesh_communicator.h"

#include <chrono>
#include <utility>

#include "trireme/base/error.h"

namespace trireme {
namespace {

comm::ReduceOp op_of(Communicator::Reduction reduction) {
  return reduction == Communicator::Reduction::kMax ? comm::ReduceOp::max : comm::ReduceOp::sum;
}

}  // namespace

MeshCommunicator::MeshCommunicator(const Mesh& mesh, comm::Context& context, comm::Algorithm all_reduce)
    : mesh_(mesh), all_reduce_(all_reduce) {
  if (mesh.ranks() != context.ranks()) {
    throw_error(
        "the mesh '{}' has {} ranks, but {} are running; start as many, or change the mesh of the plan",
        to_string(mesh), mesh.ranks(), context.ranks());
  }
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    groups_.emplace_back();
    if (mesh.axes()[a].size == 1) continue;
    // Not make_unique: a group does not move, it is made in its place.
    groups_.back().reset(new comm::Group(
        context.group(mesh.axes()[a].name, mesh.members(context.rank(), static_cast<int>(a)))));
  }
}

comm::Group& MeshCommunicator::group(std::string_view axis) {
  const int found = mesh_.find(axis);
  TRIREME_CHECK(found >= 0);
  TRIREME_CHECK(groups_[found] != nullptr);
  return *groups_[found];
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
    return group(axis).all_reduce(data, count, dtype, op_of(reduction), {.algorithm = all_reduce_});
  });
}

void MeshCommunicator::reduce_scatter(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                                      Reduction reduction) {
  run([&] { return group(axis).reduce_scatter(data, count, dtype, op_of(reduction)); });
}

void MeshCommunicator::all_gather(std::string_view axis, std::byte* data, int64_t count, DType dtype) {
  run([&] { return group(axis).all_gather(data, count, dtype); });
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

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

// Adds the time that it lives to `total`.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total) {}
  ~Stopwatch() { total_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& total_;
  const Clock::time_point begin_ = Clock::now();
};

comm::CollectiveOptions options_for(comm::Algorithm wanted, comm::Collective collective) {
  if (wanted == comm::Algorithm::automatic || wanted == comm::Algorithm::native) return {.algorithm = wanted};
  const std::vector<comm::Algorithm> known = comm::algorithms_of(collective);
  return {.algorithm = std::ranges::find(known, wanted) == known.end() ? comm::Algorithm::automatic : wanted};
}

}  // namespace

MeshCommunicator::MeshCommunicator(const Mesh& mesh, comm::Context& context, const AxisAlgorithms& algorithms)
    : mesh_(mesh), transport_(context.transport()) {
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
void MeshCommunicator::start(const std::byte* data, const Start& begin) {
  const Stopwatch watch(seconds_);
  under_way_.push_back({data, begin()});
}

void MeshCommunicator::start_all_reduce(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                                        Reduction reduction) {
  start(data, [&] {
    return group(axis).all_reduce(data, count, dtype, op_of(reduction), options_[find(axis)].all_reduce);
  });
}

void MeshCommunicator::start_reduce_scatter(std::string_view axis, std::byte* data, int64_t count,
                                            DType dtype, Reduction reduction) {
  start(data, [&] {
    return group(axis).reduce_scatter(data, count, dtype, op_of(reduction),
                                      options_[find(axis)].reduce_scatter);
  });
}

void MeshCommunicator::start_all_gather(std::string_view axis, std::byte* data, int64_t count, DType dtype) {
  start(data, [&] { return group(axis).all_gather(data, count, dtype, options_[find(axis)].all_gather); });
}

void MeshCommunicator::wait(const std::byte* data) {
  const Stopwatch watch(seconds_);
  const auto found = std::ranges::find(under_way_, data, &Started::data);
  TRIREME_CHECK(found != under_way_.end());
  found->handle.wait();
  std::swap(*found, under_way_.back());
  under_way_.pop_back();
}

void MeshCommunicator::progress() {
  if (under_way_.empty()) return;
  const Stopwatch watch(seconds_);
  under_way_.front().handle.done();  // moves all that is under way on the transport
}

void MeshCommunicator::all_to_all(std::string_view axis, const std::byte* from, std::byte* to, int64_t count,
                                  DType dtype) {
  comm::Group& ranks = group(axis);
  counts_.assign(ranks.size(), count / ranks.size());
  start(to, [&] { return ranks.all_to_all(from, counts_, to, counts_, dtype); });
  wait(to);
}

std::shared_ptr<std::byte> MeshCommunicator::allocate(size_t bytes) {
  const std::shared_ptr<comm::Memory> memory = transport_.allocate(bytes);
  return {memory, memory->bytes().data()};
}

double MeshCommunicator::take_seconds() {
  return std::exchange(seconds_, 0.0);
}

}  // namespace trireme

// Groups along the axes of a mesh, and between them.
#include "trireme/runtime/mesh_communicator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"

namespace trireme {
namespace {

comm::ReduceOp op_of(Communicator::Reduction reduction) {
  return reduction == Communicator::Reduction::kMax ? comm::ReduceOp::max : comm::ReduceOp::sum;
}

// Transports wake up for what comes; this is for what they do not know of.
constexpr std::chrono::milliseconds kLook{50};

// Seconds. Time that this rank spent elsewhere counts as silence of others up to here: what they sent
// meanwhile was not let in.
constexpr double kLongestLook = 1;

// Adds the time that it lives to `total`.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total) {}
  ~Stopwatch() { total_ += seconds_since(begin_); }
  Stopwatch(const Stopwatch&) = delete;

 private:
  double& total_;
  const Clock::time_point begin_ = Clock::now();
};

comm::CollectiveOptions options_for(comm::Algorithm wanted, comm::Collective collective) {
  if (wanted == comm::Algorithm::automatic || wanted == comm::Algorithm::native) return {.algorithm = wanted};
  const std::vector<comm::Algorithm> known = comm::algorithms_of(collective);
  return {.algorithm = std::ranges::find(known, wanted) == known.end() ? comm::Algorithm::automatic : wanted};
}

AxisAlgorithms for_all_axes(const Mesh& mesh, comm::Algorithm algorithm) {
  AxisAlgorithms result;
  for (const Axis& axis : mesh.axes()) result[axis.name] = algorithm;
  return result;
}

}  // namespace

MeshCommunicator::MeshCommunicator(const Mesh& mesh, comm::Context& context, const AxisAlgorithms& algorithms)
    : mesh_(mesh), context_(context) {
  if (mesh.ranks() != context.ranks()) {
    throw_error(
        "the mesh '{}' has {} ranks, but {} are running; start as many, or change the mesh of the plan",
        to_string(mesh), mesh.ranks(), context.ranks());
  }
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    const std::string& name = mesh.axes()[a].name;
    const auto named = algorithms.find(name);
    add(name, mesh.members(context.rank(), static_cast<int>(a)),
        named == algorithms.end() ? comm::Algorithm::automatic : named->second);
  }
  // Along an axis that has all ranks they are numbered as on the mesh.
  for (Ranks& axis : groups_) {
    if (std::ssize(axis.members) == mesh.ranks()) messages_ = axis.group.get();
  }
  if (messages_ || mesh.ranks() == 1) return;
  all_.reset(new comm::Group(context.world()));
  messages_ = all_.get();
}

MeshCommunicator::MeshCommunicator(const Mesh& mesh, comm::Context& context, comm::Algorithm algorithm)
    : MeshCommunicator(mesh, context, for_all_axes(mesh, algorithm)) {}

void MeshCommunicator::add(const std::string& name, std::vector<int> members, comm::Algorithm algorithm) {
  Ranks& added = groups_.emplace_back();
  added.name = name;
  added.options = {.all_reduce = options_for(algorithm, comm::Collective::all_reduce),
                   .reduce_scatter = options_for(algorithm, comm::Collective::reduce_scatter),
                   .all_gather = options_for(algorithm, comm::Collective::all_gather),
                   .all_to_all = options_for(algorithm, comm::Collective::all_to_all)};
  // Not make_unique: a group does not move, it is made in its place.
  if (members.size() > 1) added.group.reset(new comm::Group(context_.group(name, members)));
  added.members = std::move(members);
}

void MeshCommunicator::add_group(const std::string& name, const std::vector<int>& members) {
  const auto known = std::ranges::find(groups_, name, &Ranks::name);
  if (known == groups_.end()) return add(name, members, comm::Algorithm::automatic);
  if (known->members != members) {
    throw_error("the group '{}' has the ranks {} and can not have {}; give this one another name", name,
                fmt::join(known->members, " "), fmt::join(members, " "));
  }
}

const MeshCommunicator::Ranks& MeshCommunicator::ranks(std::string_view name) const {
  const auto found = std::ranges::find(groups_, name, &Ranks::name);
  if (found == groups_.end())
    throw_error("there is no axis or group '{}' on the mesh '{}'", name, to_string(mesh_));
  return *found;
}

const MeshCommunicator::Ranks& MeshCommunicator::several(std::string_view name) const {
  const Ranks& found = ranks(name);
  if (!found.group)
    throw_error("'{}' on the mesh '{}' is this rank alone; a collective is for two or more", name,
                to_string(mesh_));
  return found;
}

comm::Group& MeshCommunicator::messages() const {
  if (!messages_) throw_error("the mesh '{}' has no other rank to exchange messages with", to_string(mesh_));
  return *messages_;
}

Communicator::Place MeshCommunicator::place(std::string_view axis) const {
  const Ranks& found = ranks(axis);
  const auto own = std::ranges::find(found.members, context_.rank());
  return {static_cast<int>(own - found.members.begin()), static_cast<int>(found.members.size())};
}

bool MeshCommunicator::adds_in_pairs() const {
  const auto axes = std::span(groups_).first(mesh_.axes().size());
  return std::ranges::all_of(axes, [](const Ranks& ranks) {
    return ranks.options.all_reduce.algorithm == comm::Algorithm::butterfly;
  });
}

// Notes down what begin() starts.
template <typename Begin>
void MeshCommunicator::track(const std::byte* data, const Begin& begin) {
  const Stopwatch watch(seconds_);
  under_way_.push_back({data, lent_.owner(data), begin()});
}

void MeshCommunicator::start(const Collective& call) {
  const Ranks& over = several(call.axis);
  const comm::ReduceOp op = op_of(call.reduction);
  track(call.data, [&] {
    if (call.kind == CollectiveKind::kAllReduce)
      return over.group->all_reduce(call.data, call.count, call.dtype, op, over.options.all_reduce);
    const bool reduces = call.kind == CollectiveKind::kReduceScatter;
    TRIREME_CHECK((reduces || call.kind == CollectiveKind::kAllGather));
    comm::CollectiveOptions options = reduces ? over.options.reduce_scatter : over.options.all_gather;
    options.unit = call.unit;
    if (reduces) return over.group->reduce_scatter(call.data, call.count, call.dtype, op, options);
    return over.group->all_gather(call.data, call.count, call.dtype, options);
  });
}

void MeshCommunicator::start_send(int peer, const std::byte* data, int64_t bytes, int tag) {
  track(data, [&] { return messages().send(data, bytes, DType::u8, peer, tag); });
}

void MeshCommunicator::start_receive(int peer, std::byte* data, int64_t bytes, int tag) {
  track(data, [&] { return messages().receive(data, bytes, DType::u8, peer, tag); });
}

std::vector<MeshCommunicator::Started>::iterator MeshCommunicator::first_on(const std::byte* data) {
  const auto found = std::ranges::find(under_way_, data, &Started::data);
  if (found == under_way_.end())
    throw_error(
        "waited for a collective or message on memory on which none is under way; wait once for each start, with "
        "the pointer that it was given");
  return found;
}

void MeshCommunicator::wait(const std::byte* data) {
  const Stopwatch watch(seconds_);
  const auto found = first_on(data);
  try {
    found->handle.wait();
  } catch (const comm::PeerError& error) {
    if (is_lost(error.rank())) under_way_.erase(found);  // others go on, perhaps from the same memory
    throw;
  }
  under_way_.erase(found);  // keeps the order
}

// Ends it when it has not moved for too long.
void MeshCommunicator::note_silence(Started& one) {
  const double patience = one.handle.patience_seconds();
  const auto now = comm::Clock::now();
  const std::chrono::duration<double> since = now - one.looked;
  const bool moved = one.movements != one.handle.movements();
  one.looked = now;
  one.movements = one.handle.movements();
  one.silent_seconds = moved ? 0 : one.silent_seconds + std::min({since.count(), kLongestLook, patience / 4});
  if (one.silent_seconds >= patience) one.handle.time_out();
}

Communicator::Arrived MeshCommunicator::wait_any(std::span<const std::byte* const> data, Silence too_long) {
  const Stopwatch watch(seconds_);
  const auto give_up = comm::Clock::now() + clock_duration(context_.timeout_seconds());
  while (true) {
    for (size_t i = 0; i < data.size(); ++i) {
      const auto found = first_on(data[i]);
      Arrived arrived{i};
      try {
        if (!found->handle.done()) {
          if (too_long == Silence::kOfOne) note_silence(*found);
          continue;
        }
      } catch (const comm::PeerError& error) {
        if (!is_lost(error.rank())) throw;
        arrived.lost = error.what();
      }
      under_way_.erase(found);
      return arrived;
    }
    const auto now = comm::Clock::now();
    if (now >= give_up && (too_long == Silence::kOfAll || data.empty())) break;
    context_.transport().idle(now + kLook);
  }
  throw_error(
      "none of {} messages has come for {} s. Either the ranks that should send them are stuck, or a step "
      "takes longer; then raise the timeout",
      data.size(), context_.timeout_seconds());
}

bool MeshCommunicator::try_wait(const std::byte* data) {
  const Stopwatch watch(seconds_);
  const auto found = first_on(data);
  if (!found->handle.done()) return false;
  under_way_.erase(found);
  return true;
}

bool MeshCommunicator::bear_loss_of(const std::vector<int>& ranks) {
  return context_.transport().bear_loss_of(ranks);
}

bool MeshCommunicator::is_lost(int rank) const {
  return rank >= 0 && context_.transport().lost(rank) != nullptr;
}

void MeshCommunicator::progress() {
  if (under_way_.empty()) return;
  const Stopwatch watch(seconds_);
  for (Started& one : under_way_) {
    try {
      one.handle.done();  // moves all that is under way on the transport
      return;
    } catch (const comm::PeerError& error) {
      if (!is_lost(error.rank())) throw;  // those that wait for it will get the Error
    }
  }
}

void MeshCommunicator::all_to_all(const AllToAll& call) {
  const Ranks& over = several(call.axis);
  comm::Group& group = *over.group;
  const int64_t ranks = group.size();
  // All ranks have as many units of each, so that they all know.
  if (call.given.units % ranks == 0 && call.gotten.units % ranks == 0) {
    track(call.to, [&] {
      return group.all_to_all(call.from, call.to, call.given.count() / ranks, call.dtype,
                              over.options.all_to_all);
    });
    return wait(call.to);
  }
  given_.clear();
  gotten_.clear();
  for (int rank = 0; rank < group.size(); ++rank) {
    given_.push_back(call.given.of(group.size(), rank).size);
    gotten_.push_back(call.gotten.of(group.size(), rank).size);
  }
  track(call.to, [&] { return group.all_to_all(call.from, given_, call.to, gotten_, call.dtype); });
  wait(call.to);
}

std::shared_ptr<std::byte> MeshCommunicator::allocate(size_t bytes) {
  const std::shared_ptr<comm::Memory> memory = context_.transport().allocate(bytes);
  const std::shared_ptr<std::byte> data(memory, memory->bytes().data());
  lend(data, bytes);
  return data;
}

double MeshCommunicator::take_seconds() {
  return std::exchange(seconds_, 0.0);
}

uint64_t MeshCommunicator::take_bytes() {
  const comm::Counters& counters = context_.transport().counters();
  const uint64_t all = counters.bytes_sent + counters.bytes_read_directly;
  return all - std::exchange(bytes_taken_, all);
}

}  // namespace trireme

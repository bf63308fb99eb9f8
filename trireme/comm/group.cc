// What users call: arguments are checked here, before anything is sent; the engine does the rest.
#include "trireme/comm/group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/engine/engine.h"

namespace trireme::comm {
namespace {

constexpr int kMostRanks = Call::kMaxRoot + 1;

void check_count(Collective collective, int64_t count) {
  if (count < 0 || count > Call::kMaxCount) {
    throw_error("{} of {} elements: expected 0 to {}", name(collective), count, Call::kMaxCount);
  }
}

void check_root(Collective collective, int root, int ranks) {
  if (root < 0 || root >= ranks) {
    throw_error("{}: root {} of a group of {} ranks; expected 0 to {}", name(collective), root, ranks,
                ranks - 1);
  }
}

void check_data(Collective collective, const void* data, int64_t count) {
  if (data == nullptr && count > 0)
    throw_error("{} of {} elements at a null pointer", name(collective), count);
}

int64_t checked_sum(std::span<const int64_t> counts, int ranks, const char* what) {
  if (static_cast<int>(counts.size()) != ranks) {
    throw_error("all_to_all: {} {} counts in a group of {} ranks; give one for each rank", counts.size(),
                what, ranks);
  }
  int64_t sum = 0;
  for (const int64_t count : counts) {
    check_count(Collective::all_to_all, count);
    sum += count;
    check_count(Collective::all_to_all, sum);
  }
  return sum;
}

void check_members(const Transport& transport, uint32_t number, std::span<const int> members,
                   const GroupOptions& options) {
  const auto refuse = [&](const std::string& why) { throw_error("group {}: {}", options.name, why); };
  if (number >= 1u << 31) refuse(fmt::format("number {} is above {}", number, (1u << 31) - 1));
  if (members.empty()) refuse("no members");
  if (static_cast<int>(members.size()) > kMostRanks) {
    refuse(fmt::format("{} ranks; at most {} are supported", members.size(), kMostRanks));
  }
  std::vector<bool> seen(transport.ranks());
  for (const int member : members) {
    if (member < 0 || member >= transport.ranks()) {
      refuse(fmt::format("member {} is not a rank; there are {} ranks", member, transport.ranks()));
    }
    if (seen[member]) refuse(fmt::format("rank {} is a member twice", member));
    seen[member] = true;
  }
  if (!seen[transport.rank()]) {
    refuse(fmt::format("rank {} makes it but is no member; only members make a group", transport.rank()));
  }
  if (!options.hosts.empty() && options.hosts.size() != members.size()) {
    refuse(fmt::format("host numbers of {} ranks for {} members", options.hosts.size(), members.size()));
  }
  if (!(options.timeout_seconds > 0)) {
    refuse(fmt::format("a timeout of {} s; expected more than 0", options.timeout_seconds));
  }
}

}  // namespace

std::vector<int> all_ranks(int ranks) {
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

struct Group::State {
  Engine engine;

  Operation* reduction(Collective collective, void* data, int64_t count, DType dtype, ReduceOp op, int root,
                       CollectiveOptions options) {
    check_reducible(dtype, op);
    return on_vector(collective, data, count, dtype, op, root, options);
  }
  Operation* on_vector(Collective collective, void* data, int64_t count, DType dtype, ReduceOp op, int root,
                       CollectiveOptions options) {
    check_count(collective, count);
    check_root(collective, root, engine.size());
    check_data(collective, data, count);
    if (options.unit < 1 || count % options.unit != 0)
      throw_error("{} of {} elements in units of {}; expected a multiple", name(collective), count,
                  options.unit);
    const Call call{.collective = collective,
                    .algorithm = options.algorithm,
                    .dtype = dtype,
                    .op = op,
                    .root = root,
                    .count = count};
    return &engine.collective(call, data, options);
  }
  Operation* message(Step::Kind kind, DType dtype, int64_t count, void* data, int peer, int tag) {
    check_count(Collective::message, count);
    check_data(Collective::message, data, count);
    if (peer < 0 || peer >= engine.size() || peer == engine.rank()) {
      throw_error("a message between ranks {} and {} of a group of {}: expected another rank of the group",
                  engine.rank(), peer, engine.size());
    }
    if (tag < 0 || tag > kMostTag) throw_error("a message with the tag {}; expected 0 to {}", tag, kMostTag);
    return &engine.message(kind, dtype, count, data, peer, tag);
  }
};

Group::Group(Transport& transport, uint32_t number, std::vector<int> members, GroupOptions options) {
  check_members(transport, number, members, options);
  state_.reset(new State{Engine(transport, number, std::move(members), std::move(options))});
}
Group::~Group() = default;

int Group::rank() const {
  return state_->engine.rank();
}
int Group::size() const {
  return state_->engine.size();
}
Transport& Group::transport() {
  return state_->engine.transport();
}
void Group::progress() {
  state_->engine.progress();
}

Handle Group::all_reduce(void* data, int64_t count, DType dtype, ReduceOp op, CollectiveOptions options) {
  return {this, state_->reduction(Collective::all_reduce, data, count, dtype, op, 0, options)};
}
Handle Group::reduce_scatter(void* data, int64_t count, DType dtype, ReduceOp op, CollectiveOptions options) {
  return {this, state_->reduction(Collective::reduce_scatter, data, count, dtype, op, 0, options)};
}
Handle Group::reduce(void* data, int64_t count, DType dtype, ReduceOp op, int root,
                     CollectiveOptions options) {
  return {this, state_->reduction(Collective::reduce, data, count, dtype, op, root, options)};
}
Handle Group::all_gather(void* data, int64_t count, DType dtype, CollectiveOptions options) {
  return {this, state_->on_vector(Collective::all_gather, data, count, dtype, ReduceOp::sum, 0, options)};
}
Handle Group::broadcast(void* data, int64_t count, DType dtype, int root, CollectiveOptions options) {
  return {this, state_->on_vector(Collective::broadcast, data, count, dtype, ReduceOp::sum, root, options)};
}
Handle Group::gather(void* data, int64_t count, DType dtype, int root, CollectiveOptions options) {
  return {this, state_->on_vector(Collective::gather, data, count, dtype, ReduceOp::sum, root, options)};
}
Handle Group::scatter(void* data, int64_t count, DType dtype, int root, CollectiveOptions options) {
  return {this, state_->on_vector(Collective::scatter, data, count, dtype, ReduceOp::sum, root, options)};
}
Handle Group::barrier() {
  return {this, &state_->engine.collective({}, nullptr, {})};
}

Handle Group::all_to_all(const void* input, std::span<const int64_t> send_counts, void* output,
                         std::span<const int64_t> receive_counts, DType dtype) {
  Engine& engine = state_->engine;
  check_data(Collective::all_to_all, input, checked_sum(send_counts, engine.size(), "send"));
  check_data(Collective::all_to_all, output, checked_sum(receive_counts, engine.size(), "receive"));
  if (send_counts[engine.rank()] != receive_counts[engine.rank()]) {
    throw_error("all_to_all: rank {} gives itself {} elements and expects {}", engine.rank(),
                send_counts[engine.rank()], receive_counts[engine.rank()]);
  }
  return {this, &engine.all_to_all(dtype, input, send_counts, output, receive_counts)};
}

Handle Group::all_to_all(const void* input, void* output, int64_t count, DType dtype,
                         CollectiveOptions options) {
  Engine& engine = state_->engine;
  check_count(Collective::all_to_all, count);
  check_count(Collective::all_to_all, count * engine.size());
  check_data(Collective::all_to_all, input, count);
  check_data(Collective::all_to_all, output, count);
  if (options.unit != 1)
    throw_error("all_to_all in units of {}; expected 1, as no part is cut", options.unit);
  const Call call{.collective = Collective::all_to_all,
                  .algorithm = count > 0 ? options.algorithm : Algorithm::naive,  // nothing to pass on
                  .dtype = dtype,
                  .count = count * engine.size()};
  return {this, &engine.collective(call, const_cast<void*>(input), options, output)};
}

Handle Group::send(const void* data, int64_t count, DType dtype, int to, int tag) {
  return {this, state_->message(Step::Kind::send, dtype, count, const_cast<void*>(data), to, tag)};
}
Handle Group::receive(void* data, int64_t count, DType dtype, int from, int tag) {
  return {this, state_->message(Step::Kind::receive, dtype, count, data, from, tag)};
}

Handle::Handle(Handle&& other) noexcept
    : group_(std::exchange(other.group_, nullptr)), operation_(std::exchange(other.operation_, nullptr)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  std::swap(group_, other.group_);
  std::swap(operation_, other.operation_);
  return *this;
}

Handle::~Handle() {
  if (operation_ == nullptr) return;
  try {
    operation_->engine.wait(*operation_);
  } catch (const Error&) {
    // The group keeps the error and refuses the next call with it.
  }
  operation_->engine.release(*operation_);
}

void Handle::wait() {
  if (operation_ != nullptr) operation_->engine.wait(*operation_);
}
bool Handle::done() {
  return operation_ == nullptr || operation_->engine.done(*operation_);
}
uint64_t Handle::movements() const {
  return operation_ == nullptr ? 0 : operation_->movements;
}
void Handle::refuse_if_empty() const {
  if (operation_ == nullptr)
    throw_error("this handle is of no operation: it was not made by a group, or was moved from");
}
double Handle::patience_seconds() const {
  refuse_if_empty();
  return operation_->engine.patience_seconds(*operation_);
}
void Handle::time_out() {
  if (operation_ != nullptr && operation_->state == Operation::State::running)
    operation_->engine.time_out(*operation_);
}
OperationReport Handle::report() const {
  refuse_if_empty();
  return operation_->engine.report(*operation_);
}

// Texts: lengths go first; gathered texts lie in rooms as long as the longest.
std::string broadcast_text(std::string text, Group& group) {
  int64_t size = static_cast<int64_t>(text.size());
  group.broadcast(&size, 1, DType::i64, /*root=*/0).wait();
  text.resize(static_cast<size_t>(size));
  group.broadcast(text.data(), size, DType::u8, /*root=*/0).wait();
  return text;
}

std::vector<std::string> gather_texts(const std::string& own, Group& group) {
  std::vector<int64_t> sizes(group.size());
  sizes[group.rank()] = static_cast<int64_t>(own.size());
  group.all_gather(sizes.data(), group.size(), DType::i64).wait();
  const int64_t longest = *std::ranges::max_element(sizes);
  std::string all(static_cast<size_t>(longest * group.size()), '\0');
  std::ranges::copy(own, all.begin() + longest * group.rank());
  group.all_gather(all.data(), static_cast<int64_t>(all.size()), DType::u8).wait();
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank)
    texts.push_back(all.substr(static_cast<size_t>(longest * rank), static_cast<size_t>(sizes[rank])));
  return texts;
}

}  // namespace trireme::comm

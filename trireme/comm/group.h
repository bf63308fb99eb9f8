// Group: some ranks of a job, in an order, that do collectives together. The calls that users and the runtime
// make. Every call starts an operation and gives a Handle; wait() ends it. All ranks of a group start the
// same operations in the same order; several may be in flight, in one group and in several. What differs
// between ranks is an Error on all of them, with both calls in it.
//
// Bits: for a given algorithm and number of ranks the order of every addition is fixed, so the result is the
// same on every rank, in every run and on every transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/part.h"
#include "trireme/comm/collective/call.h"
#include "trireme/comm/engine/options.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

class Operation;
class Group;

// 0 … ranks-1: the members of a group of all.
std::vector<int> all_ranks(int ranks);

// Move-only. Destroying one that is not done waits for it: its memory is in use.
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();
  void wait();                     // throws PeerError
  bool done();                     // progresses, without waiting
  OperationReport report() const;  // throws Error where there is no operation

  // For callers that wait for several at a time and have to find out that one of them does not move: how
  // often it has moved, how long it may not, and an end to it, as wait() makes after that time: the rank that
  // it is with is lost, where that is borne; otherwise all of the job is over, and this throws PeerError.
  uint64_t movements() const;
  double patience_seconds() const;
  void time_out();

 private:
  friend class Group;
  Handle(Group* group, Operation* operation) : group_(group), operation_(operation) {}
  void refuse_if_empty() const;
  Group* group_ = nullptr;
  Operation* operation_ = nullptr;
};

class Group {
 public:
  // Collective over members (ranks of the transport, ascending or not; the position is the rank in the
  // group). `number` is the same on all members and tells the groups of a job apart, also those without
  // common members: two rows of a mesh have two numbers.
  Group(Transport& transport, uint32_t number, std::vector<int> members, GroupOptions options = {});
  ~Group();

  int rank() const;  // position of this rank among the members
  int size() const;

  // In place: every rank gives `count` elements and ends with the reduction over all ranks.
  Handle all_reduce(void* data, int64_t count, DType dtype, ReduceOp op, CollectiveOptions options = {});
  // `data` has `count` elements on every rank, cut in size() parts of whole units (of the options) as
  // part_of() says; rank r ends with part r reduced in its place. The other parts are left undefined.
  Handle reduce_scatter(void* data, int64_t count, DType dtype, ReduceOp op, CollectiveOptions options = {});
  // The inverse: rank r gives part r in its place, all end with all of it.
  Handle all_gather(void* data, int64_t count, DType dtype, CollectiveOptions options = {});
  Handle broadcast(void* data, int64_t count, DType dtype, int root, CollectiveOptions options = {});
  // Root ends with the reduction; the data of the others is left undefined.
  Handle reduce(void* data, int64_t count, DType dtype, ReduceOp op, int root,
                CollectiveOptions options = {});
  // Like all_gather, to root alone / its inverse from root.
  Handle gather(void* data, int64_t count, DType dtype, int root, CollectiveOptions options = {});
  Handle scatter(void* data, int64_t count, DType dtype, int root, CollectiveOptions options = {});
  // Rank r sends send_counts[p] elements to p, one after another in `input`, and gets receive_counts[p] from
  // p. Every rank knows its own counts; that they agree is checked by message sizes.
  Handle all_to_all(const void* input, std::span<const int64_t> send_counts, void* output,
                    std::span<const int64_t> receive_counts, DType dtype);
  // The same of equal parts, of which all ranks give `count` elements to all. That they agree is part of the
  // call, so that ranks can pass on what others give: two levels.
  Handle all_to_all(const void* input, void* output, int64_t count, DType dtype,
                    CollectiveOptions options = {});
  Handle barrier();
  // One message between two ranks of the group, in order per ordered pair. The tag, 0 to kMostTag, says what
  // it is: where the two ends differ, the error on all ranks names both.
  static constexpr int kMostTag = Call::kMaxRoot;
  Handle send(const void* data, int64_t count, DType dtype, int to, int tag = 0);
  Handle receive(void* data, int64_t count, DType dtype, int from, int tag = 0);

  // Moves whatever is in flight; for a runtime that calls it between kernels.
  void progress();

  Transport& transport();

 private:
  friend class Handle;
  struct State;
  std::unique_ptr<State> state_;
};

// Texts of any length between all ranks of a group. Collective. Rank 0's, on all ranks:
std::string broadcast_text(std::string text, Group& group);
// Every rank's, on all ranks:
std::vector<std::string> gather_texts(const std::string& own, Group& group);

}  // namespace trireme::comm

// MPI's own collectives of one group, on communicators of its own. MPI does not notice when ranks call
// different things, and may then hang or give wrong sums; so every rank's call is gathered and compared first
// (one small MPI_Iallgather), and only then the real one starts.
//
// MPI wants the collectives of a communicator in one order on all ranks. When a comparison ends differs
// between ranks, so comparisons have a communicator to themselves, and the real ones start in the order of
// the calls.
#include <climits>
#include <map>

#include "trireme/base/part.h"
#include "trireme/comm/collective/call.h"
#include "trireme/comm/transport/mpi/mpi_transport.h"

namespace trireme::comm {
namespace {

// MPI_DATATYPE_NULL: MPI has no such type, or none that all libraries add.
MPI_Datatype datatype_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return MPI_DOUBLE;
    case DType::f32:
      return MPI_FLOAT;
    case DType::i64:
      return MPI_INT64_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::u8:
      return MPI_UINT8_T;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Op op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return MPI_SUM;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::product:
      return MPI_PROD;
  }
  return MPI_OP_NULL;
}

class MpiNative final : public Native {
 public:
  MpiNative(MpiTransport& transport, MPI_Comm comm, std::span<const int> members, const bool& job_failed)
      : transport_(transport),
        comm_(comm),
        job_failed_(job_failed),
        ranks_(static_cast<int>(members.size())),
        members_(members.begin(), members.end()) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    check(MPI_Comm_dup(comm_, &compare_comm_));
  }
  ~MpiNative() override {
    if (job_failed_) return;
    MPI_Comm_free(&compare_comm_);
    MPI_Comm_free(&comm_);
  }

  bool offers(const Call& call) const override {
    if (call.count > INT_MAX) return false;
    switch (call.collective) {
      case Collective::barrier:
        return true;
      case Collective::all_reduce:
      case Collective::broadcast:
      case Collective::all_gather:
        return datatype_of(call.dtype) != MPI_DATATYPE_NULL;
      default:
        return false;
    }
  }

  void start(NativeOperation& operation) override {
    transport_.check_alive();
    transport_.note_native(1);
    operation.detail = pending_.empty() ? 0 : pending_.rbegin()->first + 1;
    Pending& pending = pending_[operation.detail];
    pending.operation = &operation;
    pending.calls.resize(static_cast<size_t>(ranks_));
    check(MPI_Iallgather(&operation.call, 1, MPI_UINT64_T, pending.calls.data(), 1, MPI_UINT64_T,
                         compare_comm_, &pending.request));
  }

  bool progress(NativeOperation& operation) override {
    transport_.check_alive();
    const bool started = start_compared();
    Pending& pending = pending_.at(operation.detail);
    if (!pending.started || !test(pending)) return started;
    finish(operation);
    return true;
  }

 private:
  struct Pending {
    NativeOperation* operation = nullptr;
    std::vector<uint64_t> calls;             // of all ranks
    std::vector<int> counts, offsets;        // of an all_gather
    MPI_Request request = MPI_REQUEST_NULL;  // of the comparison, then of the real one
    bool started = false;                    // the real one
  };

  void check(int code) const { transport_.check(code, -1, "running a collective"); }

  bool test(Pending& pending) const {
    int done = 0;
    check(MPI_Test(&pending.request, &done, MPI_STATUS_IGNORE));
    return done != 0;
  }

  // Starts the operations that were compared, up to the first that was not yet.
  bool start_compared() {
    bool moved = false;
    for (auto& [number, pending] : pending_) {
      if (pending.started) continue;
      if (!test(pending)) break;
      for (size_t r = 0; r < pending.calls.size(); ++r)
        transport_.compare(members_[r], {pending.operation->sequence, pending.operation->call},
                           pending.calls[r]);
      start_collective(pending, *pending.operation);
      pending.started = true;
      moved = true;
      transport_.note_native(0);
    }
    return moved;
  }

  void start_collective(Pending& pending, NativeOperation& operation) {
    const Call call = Call::unpack(operation.call);
    const int count = static_cast<int>(call.count);
    switch (call.collective) {
      case Collective::barrier:
        return check(MPI_Ibarrier(comm_, &pending.request));
      case Collective::all_reduce:
        return check(MPI_Iallreduce(MPI_IN_PLACE, operation.data, count, datatype_of(call.dtype),
                                    op_of(call.op), comm_, &pending.request));
      case Collective::broadcast:
        return check(
            MPI_Ibcast(operation.data, count, datatype_of(call.dtype), call.root, comm_, &pending.request));
      default:
        break;
    }
    TRIREME_CHECK(call.collective == Collective::all_gather);
    for (int r = 0; r < ranks_; ++r) {
      const Part part = part_of(call.count, ranks_, r);
      pending.counts.push_back(static_cast<int>(part.size));
      pending.offsets.push_back(static_cast<int>(part.begin));
    }
    check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, operation.data, pending.counts.data(),
                          pending.offsets.data(), datatype_of(call.dtype), comm_, &pending.request));
  }

  void finish(NativeOperation& operation) {
    const Call call = Call::unpack(operation.call);
    if (call.collective == Collective::all_reduce && call.op == ReduceOp::average)
      scale(operation.data, call.dtype, operation.bytes, ranks_);
    pending_.erase(operation.detail);
    transport_.note_native(-1);
    operation.done = true;
  }

  MpiTransport& transport_;
  MPI_Comm comm_;
  MPI_Comm compare_comm_ = MPI_COMM_NULL;
  const bool& job_failed_;
  int ranks_;
  std::vector<int> members_;             // ranks of the transport
  std::map<uint64_t, Pending> pending_;  // in the order of the calls; a node stays where it is
};

}  // namespace

std::unique_ptr<Native> MpiTransport::native(uint32_t group, std::span<const int> members) {
  check_alive();
  MPI_Group world, some;
  MPI_Comm_group(comm_, &world);
  MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &some);
  MPI_Comm comm = MPI_COMM_NULL;
  const int code =
      MPI_Comm_create_group(comm_, some, static_cast<int>(group % static_cast<uint32_t>(tags_)), &comm);
  MPI_Group_free(&some);
  MPI_Group_free(&world);
  check(code, -1, "making a communicator");
  return std::make_unique<MpiNative>(*this, comm, members, job_failed_);
}

}  // namespace trireme::comm

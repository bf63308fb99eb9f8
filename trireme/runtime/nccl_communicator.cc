// See nccl.h. All collectives go on one stream, in the order in which they are begun, which is the same on
// the ranks of a group. Each way of messages has a stream and a communicator of its own: a message that is
// awaited early must not hold up one that goes the other way, and NCCL does the calls of a communicator in
// turn.
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/kernels/cuda/context.h"
#include "trireme/runtime/nccl.h"
#include "trireme/runtime/nccl_links.h"
#include "trireme/runtime/wrapping_communicator.h"

namespace trireme {
namespace {

// Joins two ranks for the messages that go one way; part 0 of the pair sends.
struct MessageWay {
  CommUse::Way way;
  NcclLink* link;
};

std::byte* bytes_of(std::vector<ncclUniqueId>& ids) {
  return reinterpret_cast<std::byte*>(ids.data());
}

std::shared_ptr<std::byte> device_byte(int device) {
  void* data = nullptr;
  cuda::check(cudaSetDevice(device), "choosing the device");
  cuda::check(cudaMalloc(&data, 1), "memory for a first message");
  return {static_cast<std::byte*>(data), [](std::byte* memory) { cudaFree(memory); }};
}

class NcclCommunicator final : public WrappingCommunicator {
 public:
  explicit NcclCommunicator(const NcclSetup& setup)
      : WrappingCommunicator(setup.host),
        use_(setup.use),
        first_message_(device_byte(setup.device)),
        links_(setup.device, setup.stream, setup.host.timeout_seconds()) {
    const cudaStream_t collectives = links_.make_stream();
    for (const std::string& axis : setup.use.groups) {
      const Place place = inner_.place(axis);
      groups_.push_back({axis, &links_.join("the axis " + axis, place.rank, place.ranks,
                                            id_of_group(axis, place), collectives)});
    }
    for (const CommUse::Way& way : setup.use.ways) {
      NcclLink& link = links_.join(fmt::format("messages from rank {} to rank {}", way.from, way.to),
                                   way.from == use_.rank ? 0 : 1, 2, id_of_way(way), links_.make_stream());
      ways_.push_back({way, &link});
      connect(way);
    }
  }

  void start(const Collective& call) override {
    NcclLink& link = group(call.axis);
    const bool everywhere = call.kind == CollectiveKind::kAllReduce;
    const auto others = static_cast<uint64_t>(link.ranks - 1);
    const Part own = call.parts().of(link.ranks, link.rank);
    const ncclDataType_t type = nccl_type(call.dtype);
    const ncclRedOp_t op = nccl_reduction(call.reduction);
    // An all_gather sends this rank's part to all; the others what is not theirs, once or twice, on average.
    const uint64_t sent = call.kind == CollectiveKind::kAllGather
                              ? others * static_cast<uint64_t>(own.size) * size_of(call.dtype)
                              : (everywhere ? 2 : 1) * others * call.bytes() / (others + 1);
    begin(link, {name(call.kind).data(), call.data, call.bytes()}, sent,
          [&](ncclComm_t comm, cudaStream_t stream) {
            if (everywhere)
              return nccl().ncclAllReduce(call.data, call.data, static_cast<size_t>(call.count), type, op,
                                          comm, stream);
            if (call.parts().units % link.ranks != 0) return start_uneven(link, call, comm, stream);
            std::byte* const part = call.data + static_cast<size_t>(own.begin) * size_of(call.dtype);
            const auto count = static_cast<size_t>(own.size);
            if (call.kind == CollectiveKind::kReduceScatter)
              return nccl().ncclReduceScatter(call.data, part, count, type, op, comm, stream);
            return nccl().ncclAllGather(part, call.data, count, type, comm, stream);
          });
  }
  // Ranks do not compare tags here: NCCL's messages have none.
  void start_send(int peer, const std::byte* data, int64_t bytes, int) override {
    begin(way({use_.rank, peer}), {"a message", data, static_cast<size_t>(bytes)},
          static_cast<uint64_t>(bytes), [&](ncclComm_t comm, cudaStream_t stream) {
            return nccl().ncclSend(data, static_cast<size_t>(bytes), ncclUint8, 1, comm, stream);
          });
  }
  void start_receive(int peer, std::byte* data, int64_t bytes, int) override {
    begin(way({peer, use_.rank}), {"a message", data, static_cast<size_t>(bytes)}, 0,
          [&](ncclComm_t comm, cudaStream_t stream) {
            return nccl().ncclRecv(data, static_cast<size_t>(bytes), ncclUint8, 0, comm, stream);
          });
  }
  void wait(const std::byte* data) override { links_.wait(data); }
  Arrived wait_any(std::span<const std::byte* const>, Silence) override {
    throw_error(
        "NCCL can not say which message has come first; a plan with a server needs another transport");
  }
  void progress() override {
    links_.check();
    inner_.progress();
  }
  void all_to_all(const AllToAll& call) override {
    NcclLink& link = group(call.axis);
    const size_t width = size_of(call.dtype);
    const auto kept = static_cast<size_t>(call.given.of(link.ranks, link.rank).size) * width;
    begin(link, {"all_to_all", call.to, call.gotten_bytes()}, call.given_bytes() - kept,
          [&](ncclComm_t comm, cudaStream_t stream) {
            nccl().ncclGroupStart();
            for (int rank = 0; rank < link.ranks; ++rank) {
              const Part given = call.given.of(link.ranks, rank), gotten = call.gotten.of(link.ranks, rank);
              send(call.from, given, call.dtype, rank, comm, stream);
              receive(call.to, gotten, call.dtype, rank, comm, stream);
            }
            return nccl().ncclGroupEnd();  // with the error of any of these
          });
    wait(call.to);
  }
  void add_group(const std::string& name, const std::vector<int>&) override {
    throw_error("NCCL has joined the ranks of the program's axes; the group '{}' comes too late", name);
  }
  bool adds_in_pairs() const override { return false; }  // in an order of its own
  uint64_t take_bytes() override { return inner_.take_bytes() + std::exchange(bytes_, 0); }

 private:
  struct Group {
    std::string axis;
    NcclLink* link;
  };

  ncclUniqueId id_of_group(const std::string& axis, const Place& place) {
    std::vector<ncclUniqueId> ids(static_cast<size_t>(place.ranks));
    if (place.rank == 0) make_id(ids[0]);
    if (place.ranks > 1)
      inner_.all_gather(axis, bytes_of(ids), static_cast<int64_t>(ids.size() * sizeof ids[0]), DType::u8);
    return ids[0];
  }
  ncclUniqueId id_of_way(const CommUse::Way& way) {
    std::vector<ncclUniqueId> id(1);
    if (way.from == use_.rank) {
      make_id(id[0]);
      inner_.start_send(way.to, bytes_of(id), sizeof id[0], 0);
    } else {
      inner_.start_receive(way.from, bytes_of(id), sizeof id[0], 0);
    }
    inner_.wait(bytes_of(id));
    return id[0];
  }
  static void make_id(ncclUniqueId& id) {
    if (const ncclResult_t result = nccl().ncclGetUniqueId(&id); result != ncclSuccess)
      throw_error("NCCL has no address at which ranks could meet: {} ({})", nccl().ncclGetErrorString(result),
                  nccl().ncclGetLastError(nullptr));
  }

  // NCCL connects two ranks at their first message, and holds up sender and receiver until both have
  // come. Here all go the same ways in the same order; in a step a rank may wait for one that waits for it in
  // another place.
  void connect(const CommUse::Way& way) {
    std::byte* const first = first_message_.get();
    if (way.from == use_.rank)
      start_send(way.to, first, 1, 0);
    else
      start_receive(way.from, first, 1, 0);
    wait(first);
    bytes_ = 0;
  }

  NcclLink& group(std::string_view axis) {
    for (Group& group : groups_) {
      if (group.axis == axis) return *group.link;
    }
    throw_error("NCCL has not joined the ranks of '{}', which the program does not use", axis);
  }
  NcclLink& way(const CommUse::Way& wanted) {
    for (MessageWay& one : ways_) {
      if (one.way == wanted) return *one.link;
    }
    throw_error("NCCL has not joined rank {} to rank {}, between which the program has no messages",
                wanted.from, wanted.to);
  }
  // Parts of a vector, in a group of calls. Both ends know a part's size: what is empty is not sent.
  static void send(const std::byte* data, const Part& part, DType dtype, int to, ncclComm_t comm,
                   cudaStream_t stream) {
    if (part.size == 0) return;
    nccl().ncclSend(data + static_cast<size_t>(part.begin) * size_of(dtype), static_cast<size_t>(part.size),
                    nccl_type(dtype), to, comm, stream);
  }
  static void receive(std::byte* data, const Part& part, DType dtype, int from, ncclComm_t comm,
                      cudaStream_t stream) {
    if (part.size == 0) return;
    nccl().ncclRecv(data + static_cast<size_t>(part.begin) * size_of(dtype), static_cast<size_t>(part.size),
                    nccl_type(dtype), from, comm, stream);
  }
  // NCCL's own calls know equal parts alone: a reduce_scatter is a sum to each rank, an all_gather messages.
  static ncclResult_t start_uneven(const NcclLink& link, const Collective& call, ncclComm_t comm,
                                   cudaStream_t stream) {
    const Part own = call.parts().of(link.ranks, link.rank);
    nccl().ncclGroupStart();
    for (int rank = 0; rank < link.ranks; ++rank) {
      const Part part = call.parts().of(link.ranks, rank);
      if (call.kind == CollectiveKind::kReduceScatter) {
        if (part.size == 0) continue;
        std::byte* const data = call.data + static_cast<size_t>(part.begin) * size_of(call.dtype);
        nccl().ncclReduce(data, data, static_cast<size_t>(part.size), nccl_type(call.dtype),
                          nccl_reduction(call.reduction), rank, comm, stream);
      } else if (rank != link.rank) {
        send(call.data, own, call.dtype, rank, comm, stream);
        receive(call.data, part, call.dtype, rank, comm, stream);
      }
    }
    return nccl().ncclGroupEnd();  // with the error of any of these
  }

  // `sent`: bytes that leave this rank at least.
  template <typename Start>
  void begin(NcclLink& link, const NcclLinks::Work& work, uint64_t sent, const Start& start) {
    links_.begin(link, work, start);
    bytes_ += sent;
  }

  const CommUse use_;
  const std::shared_ptr<std::byte> first_message_;  // outlives the links that send it
  NcclLinks links_;
  std::vector<Group> groups_;
  std::vector<MessageWay> ways_;
  uint64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(const NcclSetup& setup) {
  require_nccl();
  return std::make_unique<NcclCommunicator>(setup);
}

}  // namespace trireme

// What collective kernels and transfers ask of the runtime: collectives over the ranks along one axis of the
// mesh, or over a group that was given a name, and messages between two ranks. Counts are in elements; there
// is one part for each rank of the axis. All of these throw an Error when a rank is gone (but see
// bear_loss_of()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/part.h"
#include "trireme/ir/collective.h"

namespace trireme {

class Communicator {
 public:
  enum class Reduction { kSum, kMax };

  // Elements in parts that lie one after another. Parts are whole units, as many as part_of() says: where
  // ranks do not divide the number of units, the first parts have one more.
  struct Parts {
    int64_t units;
    int64_t unit = 1;  // elements

    int64_t count() const { return units * unit; }
    Part of(int64_t ranks, int64_t rank) const {
      const Part part = part_of(units, ranks, rank);
      return {part.begin * unit, part.size * unit};
    }
  };

  // A collective in place. All but an all_reduce have one part of `data` for each rank: a reduce_scatter
  // leaves this rank's own part reduced and the others undefined, an all_gather is given this rank's own.
  struct Collective {
    CollectiveKind kind;  // kAllReduce, kReduceScatter or kAllGather
    std::string_view axis;
    std::byte* data;
    int64_t count;
    DType dtype;
    Reduction reduction = Reduction::kSum;
    int64_t unit = 1;  // elements that no two parts share; `count` is a multiple

    Parts parts() const { return {count / unit, unit}; }
    size_t bytes() const { return static_cast<size_t>(count) * size_of(dtype); }
  };

  virtual ~Communicator() = default;

  // Starts a collective, whose `data` is its own until wait(data). Several may be under way; all ranks of an
  // axis start the same ones in the same order. What is under way shares the memory, where that is from
  // allocate() or was lent: its owner may go first. Other memory must stay until wait(data) returns.
  virtual void start(const Collective& call) = 0;
  // One message to another rank of the mesh, or from it. Several may be under way; those from one rank to
  // another arrive in the order in which they were started. The tag says what a message is, the same on both
  // ends, or it is an Error on all ranks.
  virtual void start_send(int peer, const std::byte* data, int64_t bytes, int tag) = 0;
  virtual void start_receive(int peer, std::byte* data, int64_t bytes, int tag) = 0;
  // For the first that was started on `data` and not waited for yet.
  virtual void wait(const std::byte* data) = 0;
  // For the first of these that is through, which is then as after wait(); or whose rank is lost, where that
  // is borne. Of several, the one that is named first. Throws an Error when nothing comes for too long: of
  // all of them; or of one, which is then lost instead, where that is borne, also when others come meanwhile.
  struct Arrived {
    size_t number = 0;      // among those given
    std::string lost = "";  // what became of its rank; "": it is there
  };
  enum class Silence { kOfAll, kOfOne };
  virtual Arrived wait_any(std::span<const std::byte* const> data, Silence /*too_long*/ = Silence::kOfAll) {
    wait(data[0]);
    return {};
  }
  // Whether the first that was started on `data` and not waited for yet is through; then it is as after
  // wait().
  virtual bool try_wait(const std::byte* data) {
    wait(data);
    return true;
  }
  // Ends all that is under way or begun later, on all ranks, with an Error that gives this reason: for a rank
  // that fails by itself while others count on its messages.
  virtual void give_up(const std::string& /*reason*/) {}
  // From now on, these ranks may be lost, and what is about others goes on; what is under way with one that
  // is lost, or begun, is an Error. All ranks say so. False where that can not be: then it is the end of all.
  virtual bool bear_loss_of(const std::vector<int>& /*ranks*/) { return false; }
  virtual bool is_lost(int /*rank*/) const { return false; }
  // Moves what is under way, without waiting; cheap when nothing is.
  virtual void progress() = 0;

  void all_reduce(std::string_view axis, std::byte* data, int64_t count, DType dtype, Reduction reduction) {
    start({CollectiveKind::kAllReduce, axis, data, count, dtype, reduction});
    wait(data);
  }
  void reduce_scatter(std::string_view axis, std::byte* data, int64_t count, DType dtype, Reduction reduction,
                      int64_t unit = 1) {
    start({CollectiveKind::kReduceScatter, axis, data, count, dtype, reduction, unit});
    wait(data);
  }
  void all_gather(std::string_view axis, std::byte* data, int64_t count, DType dtype, int64_t unit = 1) {
    start({CollectiveKind::kAllGather, axis, data, count, dtype, Reduction::kSum, unit});
    wait(data);
  }
  // What a rank gives, and what it gets: part r of `from` goes to rank r, part r of `to` comes from there.
  // All ranks have as many units of each; what is one differs, as ranks have unequal parts.
  struct AllToAll {
    std::string_view axis;
    const std::byte* from;
    Parts given;
    std::byte* to;
    Parts gotten;
    DType dtype;

    size_t given_bytes() const { return static_cast<size_t>(given.count()) * size_of(dtype); }
    size_t gotten_bytes() const { return static_cast<size_t>(gotten.count()) * size_of(dtype); }
  };
  virtual void all_to_all(const AllToAll& call) = 0;  // waits

  // Gives a name to some ranks of the mesh, this one among them: from then on it may stand where the name of
  // an axis does. Collective over the members; the same once more does nothing.
  virtual void add_group(const std::string& name, const std::vector<int>& members) = 0;

  // This rank's number along an axis or in a group, and how many there are.
  struct Place {
    int rank, ranks;
  };
  virtual Place place(std::string_view axis) const = 0;
  // What takes longer than this without moving has failed.
  virtual double timeout_seconds() const = 0;

  // Whether all_reduce adds neighbours first, then pairs of neighbours, and so on: ((0 + 1) + (2 + 3)) + …,
  // on every transport. Then what 2^k ranks add up has the same bits for every k.
  virtual bool adds_in_pairs() const { return false; }

  // Memory that the transport uses without a copy; ordinary memory where it has nothing better.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes) = 0;
  // Lends memory that the caller allocated: whatever is started on it keeps it alive until it has ended. For
  // a communicator that is done with memory when a call returns, there is nothing to do.
  virtual void lend(const std::shared_ptr<std::byte>& /*memory*/, size_t /*bytes*/) {}

  // Time spent in the calls above since this was last asked, in seconds: communication that computation had
  // to stand aside for.
  virtual double take_seconds() = 0;
  // Bytes that this rank has sent since this was last asked; where ranks read each other's memory, that it
  // has read.
  virtual uint64_t take_bytes() = 0;
};

}  // namespace trireme

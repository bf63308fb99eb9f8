// Engine: runs the operations of one group. Finds or makes the recipe of a call, starts it, waits for it
// while moving everything else that is in flight on the transport, and turns failures into errors that say
// which call of which group it was and who has not come.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/engine/operation.h"
#include "trireme/comm/engine/options.h"
#include "trireme/comm/engine/recipe_book.h"
#include "trireme/comm/transport/ticks.h"

namespace trireme::comm {

class Engine {
 public:
  Engine(Transport& transport, uint32_t number, std::vector<int> members, GroupOptions options);
  ~Engine();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  Transport& transport() { return transport_; }

  // All arguments are checked but for the root, which must fit a Call. An all-to-all here is one of even
  // parts, whose count is that of all parts; it takes an output, others are in place.
  Operation& collective(const Call& call, void* data, CollectiveOptions options, void* output = nullptr);
  Operation& all_to_all(DType dtype, const void* input, std::span<const int64_t> send_counts, void* output,
                        std::span<const int64_t> receive_counts);
  bool offers_native(const Call& call) const { return native_ != nullptr && native_->offers(call); }
  Operation& message(Step::Kind kind, DType dtype, int64_t count, void* data, int peer, int tag);

  void wait(Operation& operation);
  bool done(Operation& operation);
  // How long it may not move, and what becomes of it then.
  double patience_seconds(const Operation& operation) const;
  void time_out(Operation& operation);
  // Back to its recipe; it is not running.
  void release(Operation& operation);
  OperationReport report(const Operation& operation) const;
  void progress();

 private:
  RecipePage& make_collective(RecipeKey key, Call call, const CollectiveOptions& options);
  Operation& begin(RecipePage& page, uint64_t stream, bool announced, std::byte* data, std::byte* output);
  void record(Operation& operation);
  bool move_all();
  void finish(Operation& operation);
  void enlist(Operation& operation);
  void unlink(Operation& operation);
  void refuse_if_failed() const;
  // The error of a message with a lost rank, if the job continues without that rank; null otherwise.
  const PeerError* lost(const Operation& operation) const;
  void let_go(Operation& operation);
  bool progress(Operation& operation);
  [[noreturn]] void refuse(const Operation& operation) const;  // that has failed
  [[noreturn]] void fail(const Operation* operation, const PeerError& error);
  void fail_live();
  int expendable_peer(const Operation& operation) const;  // that it is a message of or for; −1: none
  std::string describe(const Operation& operation) const;
  std::string who_arrived(const Operation& operation);

  Transport& transport_;
  uint32_t number_;
  std::vector<int> members_;
  int rank_ = 0;
  GroupOptions options_;
  std::unique_ptr<Native> native_;
  RecipeBook book_;
  TickRate rate_;
  uint32_t sequence_ = 0;
  std::vector<uint32_t> sent_;  // messages to each member so far
  std::vector<uint32_t> received_;
  std::vector<int64_t> counts_;  // of the all-to-all, or the unit, that is being looked up
  std::optional<PeerError> failure_;
};

}  // namespace trireme::comm

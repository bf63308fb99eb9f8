// Notes in a trace when each collective and message began and ended, and for how long somebody waited for it.
// While the trace is paused it only counts messages.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/trace.h"
#include "trireme/runtime/wrapping_communicator.h"

namespace trireme {

class TracedCommunicator final : public WrappingCommunicator {
 public:
  // Over another one, of the rank `rank`. Both outlive it.
  TracedCommunicator(Communicator& inner, Trace& trace, int rank)
      : WrappingCommunicator(inner), trace_(trace), rank_(rank) {}

  void start(const Collective& call) override;
  void start_send(int peer, const std::byte* data, int64_t bytes, int tag) override;
  void start_receive(int peer, std::byte* data, int64_t bytes, int tag) override;
  void wait(const std::byte* data) override;
  Arrived wait_any(std::span<const std::byte* const> data, Silence too_long) override;
  bool try_wait(const std::byte* data) override;
  void all_to_all(const AllToAll& call) override;

 private:
  struct Started {
    const std::byte* data;
    TraceEvent event;
  };
  void add_message(const char* way, int peer, const std::byte* data, int64_t bytes, TraceEvent::Arrow arrow);
  // Nothing for what began while the trace was paused.
  std::optional<TraceEvent> take_event(const std::byte* data);
  TraceEvent begun(TraceEvent::Kind kind, std::string name, int64_t bytes) const;
  void end(std::optional<TraceEvent> event, double waited_from);
  // Messages from one rank to another arrive in order, so that counting them on both ends numbers them alike.
  int64_t message_number(int from, int to) { return from + 4096 * (to + 4096 * messages_[{from, to}]++); }

  Trace& trace_;
  int rank_;
  std::vector<Started> under_way_;  // in the order of their starts
  std::map<std::pair<int, int>, int64_t> messages_;
};

}  // namespace trireme

// The transport of ranks that are threads of one process: for tests, and for several ranks on one device. The
// receiver copies or combines straight from the sender's memory, in one pass; only small messages are kept
// aside so that their sender need not wait.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/transport/inproc/hub.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

class InprocTransport final : public Transport {
 public:
  // One per rank of the hub, each used by its own thread. Destroying it while others wait for this rank ends
  // their operations: "rank 2 left".
  InprocTransport(std::shared_ptr<InprocHub> hub, int rank);
  ~InprocTransport() override;

  std::string_view name() const override { return "inproc"; }
  void send(int peer, Label label, std::span<const std::byte> bytes, Request& request) override;
  void receive(int peer, Label label, std::span<std::byte> into, Combine combine, Request& request) override;
  bool progress() override;
  void idle(Clock::time_point deadline) override;
  std::unique_ptr<Memory> allocate(size_t bytes) override;
  void announce(Label label) override;
  std::vector<Arrival> arrivals(uint64_t stream, std::span<const int> ranks,
                                Clock::time_point deadline) override;
  void abort(std::string_view reason) override;
  std::unique_ptr<Native> native(uint32_t group, std::span<const int> members) override;

 private:
  // First in, first out, with removal from the middle; T has a `next`.
  template <typename T>
  struct List {
    List() = default;
    List(const List&) = delete;  // `end` points into it
    List& operator=(const List&) = delete;
    T* first = nullptr;
    T** end = &first;
    void push(T* item);
    // The first one of the stream, taken out; nullptr if there is none.
    T* take(uint64_t stream);
  };
  struct Peer {
    List<Request> receives;          // posted, no message yet
    List<InprocMessage> unexpected;  // come, no receive yet
    int sends = 0;                   // not yet taken by the peer
  };

  void check();
  void withdraw();
  bool empty_mailbox();
  bool waits_for(int peer) const;
  void check_left();
  InprocMessage& free_message();
  void deliver(InprocMessage& message, Request& request);
  void finish_returned();

  std::shared_ptr<InprocHub> hub_;
  InprocHub::Box& box_;
  std::vector<Peer> peers_;
  InprocMessage* free_ = nullptr;
  int seen_left_ = 0;  // how many had left when the mailbox was last emptied
  int spins_;
};

}  // namespace trireme::comm

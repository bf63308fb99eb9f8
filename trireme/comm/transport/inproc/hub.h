// InprocHub: what the ranks of one process share, each rank being a thread. A mailbox per rank, the calls
// that each has entered, and the first failure, which ends all of them.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

// A message between two threads. The sender's: it makes it, posts it, and gets it back when it was taken.
struct InprocMessage {
  enum class State : uint8_t { posted, being_taken, taken, withdrawn };

  InprocMessage* next = nullptr;
  int from = 0;
  int to = 0;
  Label label;
  const std::byte* data = nullptr;  // the sender's own memory, or `kept`
  size_t bytes = 0;
  Request* request = nullptr;  // of the sender; null when it is done already because the bytes are kept here
  std::vector<std::byte> kept;
  // Between the receiver, who reads the sender's memory, and a sender that gives up and frees it.
  std::atomic<State> state{State::taken};
};

// A list that any thread adds to and one empties, in the order of adding.
class InprocQueue {
 public:
  void push(InprocMessage* message) {
    InprocMessage* head = head_.load(std::memory_order_relaxed);
    do {
      message->next = head;
    } while (!head_.compare_exchange_weak(head, message));
  }
  bool empty() const { return head_.load() == nullptr; }
  InprocMessage* take_all();

 private:
  std::atomic<InprocMessage*> head_{nullptr};
};

class InprocHub {
 public:
  static constexpr size_t kEntered = 256;  // calls remembered per rank, for comparison and error messages

  explicit InprocHub(int ranks);

  int ranks() const { return static_cast<int>(boxes_.size()); }

  struct alignas(128) Box {
    InprocQueue incoming;
    InprocQueue returned;  // own messages that were taken
    std::atomic<bool> asleep{false};
    std::mutex mutex;
    std::condition_variable woken;
    std::atomic<bool> gone{false};
    std::deque<InprocMessage> messages;  // of this rank; here, since they may outlive its transport

    struct Entered {
      std::atomic<uint64_t> stream{~uint64_t{0}};
      std::atomic<uint64_t> call{0};
    };
    std::array<Entered, kEntered> entered;
  };
  Box& box(int rank) { return *boxes_[rank]; }
  void wake(int rank);
  void wake_all();

  // The first failure stays; all ranks throw it from then on.
  void fail(Failure failure, int rank, const std::string& text);
  void throw_if_failed() const {
    if (failed_.load(std::memory_order_acquire)) throw_failure();
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  void enter(int rank, Label label);
  Arrival arrival(int rank, uint64_t stream) const;

  // Counts transports that were destroyed, so that looking for one costs a load.
  void leave(int rank);
  int left() const { return left_.load(); }

 private:
  [[noreturn]] void throw_failure() const;

  std::vector<std::unique_ptr<Box>> boxes_;
  std::atomic<int> left_{0};
  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  std::unique_ptr<PeerError> failure_;
};

}  // namespace trireme::comm

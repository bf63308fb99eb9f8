// What threads that are ranks share; see hub.h. Flags that one thread sets and then looks at another's are
// sequentially consistent, because each of the two threads must not miss the other.
#include "trireme/comm/transport/inproc/hub.h"

#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

size_t stream_slot(uint64_t stream) {
  const auto group = static_cast<uint32_t>(stream >> 32);
  return (static_cast<uint32_t>(stream) + group * 61) % InprocHub::kEntered;
}

}  // namespace

InprocMessage* InprocQueue::take_all() {
  InprocMessage* newest = head_.exchange(nullptr);
  InprocMessage* oldest = nullptr;
  while (newest != nullptr) {
    InprocMessage* const older = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = older;
  }
  return oldest;
}

InprocHub::InprocHub(int ranks) {
  TRIREME_CHECK(ranks >= 1);
  for (int rank = 0; rank < ranks; ++rank) boxes_.push_back(std::make_unique<Box>());
}

void InprocHub::wake(int rank) {
  Box& to = box(rank);
  if (!to.asleep.load()) return;
  // The lock orders this with the sleeper's last look at its queues.
  const std::lock_guard lock(to.mutex);
  to.woken.notify_one();
}

void InprocHub::wake_all() {
  for (int rank = 0; rank < ranks(); ++rank) wake(rank);
}

void InprocHub::fail(Failure failure, int rank, const std::string& text) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_ != nullptr) return;
    failure_ = std::make_unique<PeerError>(failure, rank, text);
    failed_.store(true);
  }
  wake_all();
}

void InprocHub::throw_failure() const {
  const std::lock_guard lock(failure_mutex_);
  throw *failure_;
}

void InprocHub::enter(int rank, Label label) {
  const size_t slot = stream_slot(label.stream);
  Box::Entered& mine = box(rank).entered[slot];
  mine.stream.store(~uint64_t{0});
  mine.call.store(label.call);
  mine.stream.store(label.stream);
  for (int other = 0; other < ranks(); ++other) {
    if (other == rank) continue;
    const Box::Entered& theirs = box(other).entered[slot];
    if (theirs.stream.load() != label.stream) continue;
    const uint64_t call = theirs.call.load();
    if (call != label.call && theirs.stream.load() == label.stream) {
      fail(Failure::mismatch, other, calls_differ(rank, label.call, other, call));
    }
  }
}

Arrival InprocHub::arrival(int rank, uint64_t stream) const {
  const Box& of = *boxes_[rank];
  for (const Box::Entered& entered : of.entered) {
    const uint64_t at = entered.stream.load();
    const bool same_group = at >> 32 == stream >> 32 && at != ~uint64_t{0};
    if (same_group && static_cast<uint32_t>(at) >= static_cast<uint32_t>(stream)) return Arrival::arrived;
  }
  return of.gone.load() ? Arrival::gone : Arrival::not_arrived;
}

void InprocHub::leave(int rank) {
  box(rank).gone.store(true);
  left_.fetch_add(1);
  wake_all();
}

}  // namespace trireme::comm

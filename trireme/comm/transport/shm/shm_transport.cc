// The transport itself: ties segments, peers, messages and native paths together, and waits.
#include "trireme/comm/transport/shm/shm_transport.h"

#include <sched.h>

#include <algorithm>
#include <bit>

#include "trireme/comm/transport/shm/messages.h"
#include "trireme/comm/transport/shm/native.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

using namespace shm;

constexpr std::chrono::milliseconds kLookEvery{20};  // for ranks that died without a word

// Before a rank sleeps it looks, about 100 µs: longer than a collective of small messages takes, shorter than
// a time slice. With more ranks than processors those who have something to do need the one it looks on: it
// gives way each time, which costs a microsecond where sleeping and waking costs five and more.
constexpr int kShmSpins = 2000;
constexpr int kYields = 10;
constexpr int kYieldsCrowded = 200;

class ShmTransport : public Transport {
 public:
  explicit ShmTransport(Rendezvous& rendezvous)
      : Transport(rendezvous.rank(), rendezvous.ranks()),
        segments_(map_segments(rendezvous)),
        peers_(segments_, rank()),
        messages_(segments_, peers_, rank(), counters_) {
    // Nobody may leave before all have begun to watch it.
    rendezvous.exchange("shm watched", "");
  }
  ~ShmTransport() override { segments_.heap->close(); }

  std::string_view name() const override { return "shm"; }

  void send(int peer, Label label, std::span<const std::byte> bytes, Request& request) override {
    messages_.send(peer, label, bytes, request);
  }
  void receive(int peer, Label label, std::span<std::byte> into, Combine combine, Request& request) override {
    messages_.receive(peer, label, into, combine, request);
  }
  bool progress() override { return messages_.progress(); }
  void idle(Clock::time_point deadline) override;

  std::unique_ptr<Memory> allocate(size_t bytes) override { return segments_.heap->allocate(bytes); }

  void announce(Label label) override;
  std::vector<Arrival> arrivals(uint64_t stream, std::span<const int> ranks,
                                Clock::time_point deadline) override;
  void abort(std::string_view reason) override { peers_.end_job(Failure::aborted, rank(), reason); }
  std::unique_ptr<Native> native(uint32_t group, std::span<const int> members) override;

 private:
  bool ready() const;
  uint64_t waiting_on() const;
  void look();
  void compare_announced();
  Announced& announced(int of_rank, uint32_t group) const {
    return segments_.of_rank[of_rank]->control().announced[group % kAnnounced];
  }

  Segments segments_;
  Peers peers_;
  Messages messages_;
  std::vector<ShmNative*> natives_;
  std::vector<Retired> retired_;
  Clock::time_point looked_ = Clock::now();
};

bool ShmTransport::ready() const {
  for (const ShmNative* native : natives_) {
    if (native->ready()) return true;
  }
  return messages_.ready();
}

uint64_t ShmTransport::waiting_on() const {
  uint64_t mask = messages_.waiting_on();
  for (const ShmNative* native : natives_) mask |= native->waiting_on();
  return mask;
}

void ShmTransport::idle(Clock::time_point deadline) {
  peers_.check();
  const int spins = peers_.crowded() ? 0 : kShmSpins;
  for (int i = 0; i < spins; ++i) {
    if (ready()) return;
    pause();
    if (i % 256 == 255 && (Clock::now() >= deadline || peers_.failed())) return;
  }
  // Not by the clock: who gives way to a rank that works for a while has not looked for that long.
  const int yields = peers_.crowded() ? kYieldsCrowded : kYields;
  for (int i = 0; i < yields; ++i) {
    sched_yield();
    if (ready()) return;
  }
  messages_.make_room();
  while (!ready()) {
    const auto now = Clock::now();
    if (now >= deadline) return;
    if (now - looked_ >= kLookEvery) look();
    peers_.sleep(std::min<std::chrono::nanoseconds>(deadline - now, kLookEvery), [&] { return ready(); });
    peers_.check();
    if (!ready() && (peers_.left() & waiting_on()) != 0) look();
  }
}

// What cannot be noticed by waiting: ranks that died, left, or wait for something else than this one.
void ShmTransport::look() {
  looked_ = Clock::now();
  peers_.look();
  // What a rank did before it left is there to be seen once its leaving is.
  const uint64_t missing = waiting_on() & peers_.left();
  if (missing != 0 && !ready()) {
    const int rank = std::countr_zero(missing);
    peers_.fail(Failure::cut_off, rank,
                fmt::format("{} left while {} still waited for it", peers_.describe(rank),
                            peers_.describe(this->rank())));
  }
  compare_announced();
}

void ShmTransport::announce(Label label) {
  Announced& mine = announced(rank(), static_cast<uint32_t>(label.stream >> 32));
  mine.stream.store(0, std::memory_order_relaxed);  // so that no reader pairs the one with the other's
  mine.call.store(label.call, std::memory_order_release);
  mine.stream.store(label.stream + 1, std::memory_order_release);
}

// Ranks that entered the same operation of a group with different calls may wait for each other in ways that
// never meet, one for a message and one in a native path.
void ShmTransport::compare_announced() {
  for (const ShmNative* native : natives_) {
    const Announced& mine = announced(rank(), native->group());
    const uint64_t stream = mine.stream.load();
    if (stream == 0 || (stream - 1) >> 32 != native->group()) continue;
    for (uint64_t mask = native->members(); mask != 0; mask &= mask - 1) {
      const int other = std::countr_zero(mask);
      const Announced& theirs = announced(other, native->group());
      if (theirs.stream.load() != stream) continue;
      const uint64_t call = theirs.call.load();
      if (theirs.stream.load() != stream || call == mine.call.load()) continue;
      peers_.fail(Failure::mismatch, other, calls_differ(rank(), mine.call.load(), other, call));
    }
  }
}

std::vector<Arrival> ShmTransport::arrivals(uint64_t stream, std::span<const int> ranks, Clock::time_point) {
  std::vector<Arrival> found;
  const uint64_t left = peers_.left();
  for (int r : ranks) {
    const uint64_t seen = announced(r, static_cast<uint32_t>(stream >> 32)).stream.load();
    const bool same_group = seen != 0 && (seen - 1) >> 32 == stream >> 32;
    const auto ahead = static_cast<int32_t>(static_cast<uint32_t>(seen - 1) - static_cast<uint32_t>(stream));
    const char state = r == rank() ? 'R' : peers_.process_state(r);
    if (state == 'T' || state == 't') {  // before `arrived`: it is why the others wait
      found.push_back(Arrival::silent);
    } else if (same_group && ahead >= 0) {
      found.push_back(Arrival::arrived);
    } else if ((left >> r & 1) != 0 || state == 'Z' || state == 'X' || state == '?') {
      found.push_back(Arrival::gone);
    } else {
      found.push_back(Arrival::not_arrived);
    }
  }
  return found;
}

// Tells the members where this rank's area is, and asks for theirs. Does not wait: who constructs a group is
// not held up by a rank that is late.
std::unique_ptr<Native> ShmTransport::native(uint32_t group, std::span<const int> members) {
  std::erase_if(retired_, [](const Retired& old) { return old.free(); });
  auto setup = std::make_unique<Setup>();
  setup->area = allocate(ShmNative::area_bytes(static_cast<int>(members.size())));
  setup->place = segments_.heap->place_of(setup->area->bytes().data(), setup->area->bytes().size());
  setup->places.resize(members.size());
  setup->requests.resize(2 * members.size());
  const Label label{make_stream(group, kSetupSequence), 0};
  int me = -1;
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m] == rank()) {
      me = static_cast<int>(m);
      setup->places[m] = setup->place;
      continue;
    }
    try {
      send(members[m], label, std::as_bytes(std::span(&setup->place, 1)), setup->requests[2 * m]);
      receive(members[m], label, std::as_writable_bytes(std::span(&setup->places[m], 1)), nullptr,
              setup->requests[2 * m + 1]);
    } catch (const PeerError&) {
      // The job has ended, maybe this moment. The group's first operation says so, and which one it is.
    }
  }
  TRIREME_CHECK(me >= 0);
  const NativeParts parts{segments_, peers_, counters_, natives_, retired_};
  return std::make_unique<ShmNative>(parts, group, members, me, std::move(setup));
}

}  // namespace

std::unique_ptr<Transport> make_shm_transport(Rendezvous& rendezvous) {
  return std::make_unique<ShmTransport>(rendezvous);
}

}  // namespace trireme::comm

// What lies where in a rank's segment. Every rank has one, mapped by all:
//
//   Control                   this rank's state, its bell, what it announced; in rank 0's also the job's
//   Ring × ranks              messages to this rank, one ring for each sender
//   heap                      memory from allocate(), and what native paths need
//
// A word has one writer, except the job's, and words of different writers stand on different lines.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace trireme::comm::shm {

inline constexpr size_t kLine = 64;  // bytes of a cache line

// Tells the core that this is a spin: it saves power and leaves the loop without a flush of the pipeline.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

inline constexpr int kMaxRanks = 64;  // a rank is a bit of a word
inline constexpr uint64_t bit(int rank) {
  return uint64_t{1} << rank;
}
// Calls body(rank) for every bit.
template <typename Body>
void for_bits(uint64_t mask, const Body& body) {
  for (; mask != 0; mask &= mask - 1) body(std::countr_zero(mask));
}

// Of the whole job; that of rank 0's segment is used.
struct Job {
  // Bit r: rank r sleeps, or is about to, and wants its bell rung. All ranks look at this line after every
  // store that someone may wait for, so it is written only around sleeps.
  alignas(kLine) std::atomic<uint64_t> sleeping;
  std::atomic<uint32_t> failed;  // 1: being written, 2: the rest is there
  uint32_t failure;
  int32_t failed_rank;
  std::array<char, 4000> reason;
};

// The sequence number of messages by which the ranks of a group tell each other where their areas lie. They
// are not counted as messages of the job.
inline constexpr uint32_t kSetupSequence = ~uint32_t{0};

enum class State : uint32_t { here, left };

// The last call that a rank announced in a group; groups share an entry when their numbers do modulo
// kAnnounced, and the later one wins.
struct Announced {
  std::atomic<uint64_t> stream;  // plus one; 0: none yet
  std::atomic<uint64_t> call;
};
inline constexpr size_t kAnnounced = 64;

struct Control {
  std::array<uint64_t, 2> nonce;  // proves that a mapped segment is the one that was meant
  alignas(kLine) std::atomic<State> state;
  alignas(kLine) std::atomic<uint32_t> bell;  // counts rings
  alignas(kLine) std::array<Announced, kAnnounced> announced;
  Job job;
};

// One message, or a fragment of one that is longer than a slot.
inline constexpr size_t kSlotBytes = 16 * 1024;
inline constexpr size_t kInlineBytes = 24;  // messages up to this share a line with their header
inline constexpr uint32_t kSlots = 16;

struct Slot {
  alignas(kLine) std::atomic<uint32_t> stamp;  // number of the slot's use, from 1: what is below is there
  uint32_t ticket;                             // of a message that is read where it lies; see Ring::taken
  uint64_t stream;
  uint64_t call;
  uint64_t total;  // bytes of the whole message
  uint64_t place;  // 0, or where the bytes lie in the sender's segment
  std::array<std::byte, kInlineBytes> small;
  std::array<std::byte, kSlotBytes> payload;
};

inline constexpr uint32_t kTickets = 32;

struct Ring {
  std::array<Slot, kSlots> slots;
  // By the receiver: slots that may be used again, and for each ticket how often the message that it stands
  // for was taken.
  alignas(kLine) std::atomic<uint32_t> freed;
  alignas(kLine) std::array<std::atomic<uint32_t>, kTickets> taken;
};

}  // namespace trireme::comm::shm

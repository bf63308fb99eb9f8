// What a rank keeps in its heap for one group's native collectives. Only that rank writes it, but for
// `released`.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trireme/comm/transport/shm/layout.h"

namespace trireme::comm::shm {

inline constexpr size_t kMailHead = 48;          // what shares a line with the stamp
inline constexpr size_t kMailBytes = 32 * 1024;  // longest contribution that travels so
inline constexpr uint64_t kStages = 4;           // chunks that may be under way between two ranks

// A rank's word to all others about one operation: what it called, and either its whole contribution or
// where that lies. A short contribution begins in the line of the stamp; before a longer one the rest of
// that line says where it lies, 0 for here. Two lines, as neighbours are fetched in pairs.
struct Mail {
  alignas(2 * kLine) std::atomic<uint64_t> stamp;  // number of the operation, from 1
  uint64_t call;
  std::array<std::byte, kMailHead + kMailBytes> bytes;
};

// How far a rank is, counted over all operations of the group.
struct Counter {
  alignas(kLine) std::atomic<uint64_t> value;
};

struct Area {
  std::array<Mail, 2> mail;  // by parity: nobody is more than one operation ahead of anybody
  Counter finished;          // operations that read or write the buffers of others
  Counter staged;            // chunks that others may reduce,
  Counter reduced;           // and chunks that were reduced and that others may collect
  // By the others: how many of them will not look at this any more.
  alignas(kLine) std::atomic<uint32_t> released;
  // Then kStages × ranks chunks.
};

}  // namespace trireme::comm::shm

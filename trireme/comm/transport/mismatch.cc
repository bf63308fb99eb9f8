// Messages about ranks that are at odds; see mismatch.h.
#include "trireme/comm/transport/mismatch.h"

#include <fmt/format.h>

#include "trireme/comm/collective/call.h"

namespace trireme::comm {

std::string calls_differ(int rank, uint64_t call, int other, uint64_t other_call) {
  // Lower rank first, so that the two ends say the same.
  if (other < rank) return calls_differ(other, other_call, rank, call);
  return fmt::format(
      "ranks {} and {} made different calls: rank {}: {}; rank {}: {}. All ranks of a group have to make the "
      "same calls in the same order; look for a collective inside a condition that depends on the rank",
      rank, other, rank, to_text(Call::unpack(call)), other, to_text(Call::unpack(other_call)));
}

std::string sizes_differ(int receiver, size_t expected_bytes, int sender, size_t sent_bytes, uint64_t call) {
  return fmt::format(
      "{}: rank {} sent {} bytes where rank {} expected {}. The calls agree, so their segment sizes or, in "
      "all_to_all, their counts do not",
      to_text(Call::unpack(call)), sender, sent_bytes, receiver, expected_bytes);
}

}  // namespace trireme::comm

// The collectives that programs are made of: what a layout change costs (mesh/change.h) and what an op is
// (op_record.h) are said in the same words.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// kShift: to the next rank along the axis, from the one before it; the last one's next is the first.
enum class CollectiveKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kShift };

std::string_view name(CollectiveKind kind);  // "all_reduce"

// Bytes that a rank sends by the best algorithm over `ways` ranks, when what it gives has `given` bytes and
// what it gets has `gotten`: (ways − 1) / ways of the whole tensor's, twice that for an all_reduce; of a
// shift all. Of uneven parts this is the average over the ranks.
double bytes_sent(CollectiveKind kind, int64_t ways, double given, double gotten);

}  // namespace trireme

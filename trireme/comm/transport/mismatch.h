// What transports say when two ranks are at odds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme::comm {

// "ranks 0 and 2 made different calls: rank 0 all_reduce of …, rank 2 barrier; …"
std::string calls_differ(int rank, uint64_t call, int other, uint64_t other_call);
// The same call, but a message of another size than the receiver expected.
std::string sizes_differ(int receiver, size_t expected_bytes, int sender, size_t sent_bytes, uint64_t call);

}  // namespace trireme::comm

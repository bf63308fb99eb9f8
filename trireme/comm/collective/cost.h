// What Steps cost: a simulation of their messages on ranks that each do one thing at a time. The same Steps,
// cut in the same segments, as the engine runs.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "trireme/comm/collective/link.h"
#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

// What one message takes. The sender is busy from its start; the receiver is busy with it from
// `delay_seconds` later on, or when it has time. α and β alone make both ends busy for α + nβ, at once.
// Between hosts the message may also occupy the one link that each of the two hosts has, and waits until both
// are free.
struct Transfer {
  double send_seconds = 0;
  double link_seconds = 0;
  double delay_seconds = 0;
  double receive_seconds = 0;
};

enum class Ports : uint8_t {
  one,           // a rank sends or receives one message at a time: its thread copies
  one_each_way,  // sends one while it receives another: a network card
  unlimited,     // serves all peers at once
};

struct Costs {
  // `handed_on`: the sender sends nothing to that rank but what it took a moment before, or the receiver
  // sends it on so.
  std::function<Transfer(int from, int to, size_t bytes, bool handed_on)> transfer;
  std::function<double(size_t bytes)> reduce_seconds;  // adding that many bytes to others
  // The same as they are taken, beyond what taking them costs; empty: no less. Only what is received beside
  // its place, because that is still in use, has to be taken first.
  std::function<double(size_t bytes)> add_seconds;
  Ports ports = Ports::one_each_way;
  // Ranks of one host that are busy share its cores. 0: there are enough.
  int cores_per_host = 0;
  std::vector<int> hosts;  // host number of each rank; empty: all on one
};

Costs uniform_costs(const Link& link, Ports ports);

// Data chunk i has chunk_bytes[i] bytes; a message longer than segment_bytes goes in several. When all chunks
// are empty, messages are too (barrier); otherwise those of no bytes are not sent. Very many segments are
// extrapolated from fewer.
double predict_seconds(const Steps& steps, std::span<const size_t> chunk_bytes, size_t segment_bytes,
                       const Costs& costs);

// What the busiest rank has to do in all, which nothing can be faster than. Takes microseconds.
double busiest_seconds(const Steps& steps, std::span<const size_t> chunk_bytes, size_t segment_bytes,
                       const Costs& costs);

// Of the longest message, before it is cut.
size_t longest_message_bytes(const Steps& steps, std::span<const size_t> chunk_bytes);

}  // namespace trireme::comm

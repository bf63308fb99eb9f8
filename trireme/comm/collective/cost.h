// What Steps cost: a simulation of their messages on ranks that each do one thing at a time. The same Steps,
// cut in the same segments, as the engine runs.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "trireme/comm/collective/formula.h"
#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

// What one message takes. The sender is busy from its start; the receiver is busy with it from
// `delay_seconds` later on, or when it has time. α and β alone make both ends busy for α + nβ, at once.
struct Transfer {
  double send_seconds = 0;
  double delay_seconds = 0;
  double receive_seconds = 0;
};

enum class Ports : uint8_t {
  one,           // a rank sends or receives one message at a time: its thread copies
  one_each_way,  // sends one while it receives another: a network card
  unlimited,     // serves all peers at once
};

struct Costs {
  std::function<Transfer(int from, int to, size_t bytes)> transfer;
  std::function<double(size_t bytes)> reduce_seconds;  // adding that many bytes to others
  Ports ports = Ports::one_each_way;
};

Costs uniform_costs(const Link& link, Ports ports);

// Data chunk i has chunk_bytes[i] bytes; a message longer than segment_bytes goes in several. When all chunks
// are empty, messages are too (barrier); otherwise those of no bytes are not sent. Very many segments are
// extrapolated from fewer.
double predict_seconds(const Steps& steps, std::span<const size_t> chunk_bytes, size_t segment_bytes,
                       const Costs& costs);

// Of the longest message, before it is cut.
size_t longest_message_bytes(const Steps& steps, std::span<const size_t> chunk_bytes);

}  // namespace trireme::comm

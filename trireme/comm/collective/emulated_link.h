// A link slower than the real one, for trying out how training would go over it:
// `--link home`, `--link latency=50ms,bandwidth=100Mbit,jitter=5ms`, `--link home,jitter=5ms`.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/collective/formula.h"

namespace trireme::comm {

struct EmulatedLink {
  double latency_seconds = 0;   // of a message, before its first byte
  double jitter_seconds = 0;    // by which a message may be later still; evenly spread
  double bytes_per_second = 0;  // that a rank sends, and receives, at most; 0: as many as it can
  std::string name = "";        // of the preset, or of the preset it was made from

  // What a message costs on the average, without adding.
  Link costs() const;
  friend bool operator==(const EmulatedLink&, const EmulatedLink&) = default;
};

// From the fastest to the slowest.
const std::vector<EmulatedLink>& emulated_links();

// Between pairs of ranks, by sender and receiver. One without latency, jitter and a limit is as it is.
using EmulatedLinks = std::function<EmulatedLink(int from, int to)>;

// Throws Error for what is no preset and no setting, and for values without a unit or out of range.
EmulatedLink parse_emulated_link(std::string_view text);
// "home: latency 20 ms, 100 Mbit/s"
std::string to_text(const EmulatedLink& link);

}  // namespace trireme::comm

// What is run to find out what messages cost: Steps between pairs of ranks, all pairs at once, because ranks
// share cores and memory when they work together. What a rank receives it sends on, as collectives do: bytes
// that another core has just written take longer to read than those that were read before.
#pragma once

#include <span>
#include <vector>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

struct RankPair {
  int first;
  int second;
};

// Neighbours of one host, as many as there are; and of two hosts one from each, if there are two.
std::vector<RankPair> pairs_inside(std::span<const int> hosts);
std::vector<RankPair> pairs_across(std::span<const int> hosts);

// One chunk, back and forth: `hops` messages, each of which waits for the one before.
Steps ping_pong(int ranks, std::span<const RankPair> pairs, int hops);

// `messages` chunks one way, then all back, `phases` times in all: (messages - 1) gaps and one message each.
Steps bursts(int ranks, std::span<const RankPair> pairs, int messages, int phases);

// Both send one and take one, `rounds` times; `chains` of that at once, of two chunks each, so that nobody
// waits for a message that is under way.
Steps exchanges(int ranks, std::span<const RankPair> pairs, int chains, int rounds, Action action);

// Both send the same chunks to each other and add what comes, `rounds` times: nothing can be added as it is
// taken, because its place is still being sent.
Steps mirrored(int ranks, std::span<const RankPair> pairs, int chunks, int rounds);

// A whole vector of an even number of chunks: each rank sends one half and takes the other (`first`), then
// the other way round (`then`).
Steps vector_exchange(int ranks, std::span<const RankPair> pairs, int chunks, Action first, Action then);

// A whole vector: the first of a pair adds what the second sends, and hands each segment back at once.
Steps handed_back(int ranks, std::span<const RankPair> pairs);

}  // namespace trireme::comm

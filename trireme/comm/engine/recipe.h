// Recipe: what one rank does in one call, worked out once and kept, so that repeating the call costs no
// memory and no thought. Steps with places in memory instead of chunk numbers, sorted into one lane per peer
// and direction, each move knowing which earlier ones it has to wait for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/steps.h"
#include "trireme/comm/transport/reduce.h"

namespace trireme::comm {

enum class Space : uint8_t { data, output, scratch };  // output: of all_to_all, which is not in place

struct Place {
  Space space = Space::data;
  size_t begin = 0;  // bytes
  size_t end = 0;
};

struct Move {
  Step::Kind kind = Step::Kind::send;
  Action action = Action::copy;
  // The message has no bytes (barrier, an empty part); its place still orders it among the others.
  bool empty = false;
  // Of a receive: it may wait until its place is free; otherwise it is received beside it.
  bool in_turn = false;
  Place place;
  Place from;                 // of a local move
  uint32_t first_before = 0;  // in Recipe::before: moves that must be done with the same bytes first
  uint32_t end_before = 0;
};

// The moves with one peer in one direction, in the order of their messages.
struct Lane {
  Step::Kind kind = Step::Kind::send;
  int peer = 0;  // rank in the transport
  std::vector<uint32_t> moves;
  bool stages = false;  // may receive beside the place
};

struct Recipe {
  Call call;         // as it runs: the algorithm is decided
  size_t bytes = 0;  // of the call, for people
  size_t segment_bytes = 0;
  double predicted_seconds = 0;
  int ranks = 1;
  Combine combine = nullptr;
  Place averaged;  // scaled at the end; empty if nothing is

  std::vector<Move> moves;
  std::vector<uint32_t> before;
  std::vector<Lane> lanes;
  std::vector<uint32_t> locals;
  size_t scratch_bytes = 0;
};

// Rank `rank`'s part of a collective on a vector; `members` are the group's ranks in the transport. Chunks
// are whole units of `unit` elements.
Recipe make_recipe(const Call& call, const Steps& steps, int rank, std::span<const int> members,
                   size_t segment_bytes, int64_t unit = 1);

// Rank `rank`'s part of an all-to-all; counts in elements. Steps that expect even chunks get them from counts
// that are all equal, on all ranks.
Recipe make_all_to_all(const Call& call, const Steps& steps, std::span<const int64_t> send_counts,
                       std::span<const int64_t> receive_counts, int rank, std::span<const int> members,
                       size_t segment_bytes);

// One message to or from `peer`, a rank of the transport.
Recipe make_message(const Call& call, Step::Kind kind, int peer, size_t segment_bytes);

}  // namespace trireme::comm

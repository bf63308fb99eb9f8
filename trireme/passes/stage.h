// Cuts a graph of the forward and backward parts into pieces, one for each chunk of a pipeline and phase:
// what a chunk computes forward, backward for its inputs, and backward for its weights. Together the pieces
// compute what the graph does, node for node, so that every bit is the same.
//
//   made of states alone   casts and gathers of weights: made again in every piece that reads it
//   crosses phases         a stash: a state that one piece leaves and a later one reads
//   crosses chunks         the same, and a message where the chunks are on different ranks: whole, or in
//   parts
//
// The last chunk's forward piece has all outputs. Of a view (reshape) its source is kept. A stash of the
// value h.3/add is the state stash.h.3/add, or with another prefix.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/passes/cut.h"
#include "trireme/schedule/pipeline.h"

namespace trireme {

struct Piece {
  int chunk = 0;
  Phase phase = Phase::kForward;
  Graph graph;  // its name: that of the whole, the chunk and the phase: first.0.forward
};
std::string piece_name(std::string_view whole, int chunk, Phase phase);
// Of such a name; none where it is that of a whole segment.
std::optional<Phase> phase_of_piece(std::string_view name);

// What one piece leaves for others.
struct Crossing {
  std::string state;
  int chunk = 0;  // that makes it
  Phase phase = Phase::kForward;
  struct Reader {
    int chunk = 0;
    Phase phase = Phase::kForward;
    friend auto operator<=>(const Reader&, const Reader&) = default;
  };
  std::set<Reader> readers;
};

struct Staged {
  std::vector<Piece> pieces;  // those that have something to do, in the order in which they are run
  std::vector<Crossing> crossings;
};

// Whether gradients of weights are a phase of their own.
enum class WeightPhase { kNone, kApart };

// Ranks along an axis may have the same of what crosses chunks, and all would send it: each then sends a
// part, and the receivers, which lie along the axis too, gather it. Of a value that is had as addends and as
// their sum, the sum alone is sent: as an addend the first rank has it. What was gathered is gathered again.
struct CrossingParts {
  std::string axis;
  int64_t ways = 1, coordinate = 0;
  std::function<bool(const Value& value)> are_alike;          // on all ranks of the axis
  std::function<bool(const Value& value, int dim)> is_whole;  // on all ranks: all have as much of this dim
  std::function<bool(int from, int to)> are_apart;            // chunks: on different ranks
};

// `graph` is one rank's, partitioned and not yet fused; its outputs, and what it leaves in pending states,
// are the forward part's.
Staged stage(const Graph& graph, const Cut& cut, WeightPhase weights, const OpTable& ops,
             std::string_view prefix = "stash", const CrossingParts* parts = nullptr);

}  // namespace trireme

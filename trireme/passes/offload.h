// The update in parts, so that states can rest in files: each part needs the states of some parameters alone,
// which are read before it and written back behind it. What does not read the optimizer's states (norms, the
// scale of the gradients) comes before that, in a part or, where gradients rest in files too, a part for each
// chunk of the model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

// Where the weights or gradients of chunks rest in files: how many chunks there are, and which one alone has
// a parameter. States that are not named stay in memory.
struct ChunksInFiles {
  int chunks = 0;
  std::map<std::string, int, std::less<>> of_parameter = {};
};

struct UpdatePart {
  Graph graph;
  std::vector<std::string> states = {};  // of the optimizer, that it reads from files
  int chunk = -1;                      // whose weights and gradients it needs; −1: none that rest in files
  std::vector<std::string> kept = {};  // states that it leaves for later parts of that chunk alone
};

// Parts in the order in which they are run; the last has the outputs and the name of the whole, the others
// are called update.0, update.1, … All have all inputs. Parts have the states of one parameter, or of several
// up to a share of all, and of one chunk at most. `like` decides who goes together: the update of another
// rank, whose shapes may differ. A value that a later part reads is left in a state (kept.NAME). Throws Error
// when a part would read what an earlier one has renewed.
std::vector<UpdatePart> split_update(const Graph& update, const Graph& like, const OpTable& ops,
                                     const ChunksInFiles& chunks = {});

// The part of a parameter that has more than a part's share of all states in files, in pieces of rows
// (row_pieces.h), and how many rows each has of its states. One piece, and 0, for all others.
struct PartPieces {
  std::vector<Graph> graphs;
  int64_t rows = 0;
};
PartPieces in_pieces(const UpdatePart& part, const Graph& update, const OpTable& ops);

}  // namespace trireme

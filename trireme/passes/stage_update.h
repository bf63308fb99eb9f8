// One stage's part of the update: that of the states it has. What the stages must know of one another (sums
// of squares for the norm, the loss, the count of targets) are numbers that each makes of its own states and
// all gather along the axis pipe; then every stage adds them in the order of one rank, so that
// no bit depends on the cut. Of a weight that several stages have (a tied head), each stage's gradient is an
// addend; they send them to one another before the update.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

// State -> the stages that have it, ascending.
using StateStages = std::map<std::string, std::vector<int>, std::less<>>;

struct StagedUpdate {
  Graph graph;
  // Gradient states that this stage reads and another one has: messages.
  struct Borrowed {
    std::string state;
    int from = 0;  // stage
    friend auto operator<=>(const Borrowed&, const Borrowed&) = default;
  };
  std::vector<Borrowed> borrowed;
};

// `graph` is one rank's, partitioned and not yet fused. `stages` names all of its states but those that go
// with a parameter (`of`), which are where that is. Throws Error where a stage needs something else of
// another than a number or a gradient. All stages at once, since what one has to tell depends on what the
// others need.
std::vector<StagedUpdate> stage_updates(const Graph& graph, const StateStages& stages, int count,
                                        const OpTable& ops);

}  // namespace trireme

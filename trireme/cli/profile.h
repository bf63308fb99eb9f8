// Where the time of a step goes, by op: what Executor::run_timed reports, added up beside what the ops'
// records say the work is.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trireme/cli/ceilings.h"
#include "trireme/runtime/executor.h"

namespace trireme::cli {

enum class ProfileBy { kOp, kShape };  // all calls of an op together, or each shape on its own

struct ProfileRow {
  std::string op;
  std::string shape;   // of the inputs; "" by op
  double calls = 0;    // this and what follows: in one step
  double seconds = 0;  // sum over nodes of each node's median over the steps
  Cost cost;
  double ceiling_seconds = 0;  // the least in which this machine could do it
};

class Profile {
 public:
  Profile(ProfileBy by, Ceilings& ceilings) : by_(by), ceilings_(ceilings) {}

  // Runs a segment, timing each node. Its inputs must be set, and the executor outlive the profile.
  void run(Executor& executor, int segment);
  void end_step() { ++steps_; }

  // One per op (and shape), the most time first, of the segments as they were run for one step.
  std::vector<ProfileRow> rows() const;

 private:
  struct NodeTimes {
    const Graph* graph;
    const Node* node;
    std::vector<double> seconds;  // of each run
  };
  ProfileBy by_;
  Ceilings& ceilings_;
  int steps_ = 0;
  std::map<std::pair<int, int>, NodeTimes> nodes_;  // by segment and node
};

std::string profile_table(const std::vector<ProfileRow>& rows);

// The shapes of a node's inputs and the attributes that change what is computed: "f32[2048,384]
// f32[384,384]".
std::string shape_text(const Graph& graph, const Node& node);

}  // namespace trireme::cli

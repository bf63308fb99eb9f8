// Where the time of a step goes, by op: the times of the executor's timer, added up beside the work by
// the ops' records.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trireme/bench/ceilings.h"
#include "trireme/runtime/executor.h"

namespace trireme::bench {

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
  // As long as it lives, every run of the executor is timed node by node.
  Profile(ProfileBy by, Ceilings& ceilings, Executor& executor);
  ~Profile() { executor_.time(nullptr); }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

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
  Executor& executor_;
  int steps_ = 0;
  std::map<std::pair<int, int>, NodeTimes> nodes_;  // by segment and node
};

std::string profile_table(const std::vector<ProfileRow>& rows);

// The shapes of a node's inputs and the attributes that change what is computed: "f32[2048,384]
// f32[384,384]".
std::string shape_text(const Graph& graph, const Node& node);

}  // namespace trireme::bench

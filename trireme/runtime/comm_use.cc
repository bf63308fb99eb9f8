// See comm_use.h.
#include "trireme/runtime/comm_use.h"

#include <set>

namespace trireme {

CommUse comm_use(const Program& program) {
  std::set<std::string> groups;
  for (const Segment& segment : program.segments) {
    for (const Node& node : segment.graph.nodes) {
      if (node.op->collective) groups.insert(node.attrs.text("axis"));
    }
  }
  std::set<CommUse::Way> ways;
  for (const ActionList& list : program.lists) {
    for (const Action& action : list.actions) {
      if (action.kind == Action::Kind::kReduce) groups.emplace(replica_axis(program.mesh));
      if (action.kind == Action::Kind::kSend) ways.insert({program.rank, action.peer});
      if (action.kind == Action::Kind::kReceive) ways.insert({action.peer, program.rank});
    }
  }
  return {program.rank, {groups.begin(), groups.end()}, {ways.begin(), ways.end()}};
}

}  // namespace trireme

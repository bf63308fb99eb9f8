// Looks up names once, so that following a list allocates nothing.
#include "trireme/runtime/runner.h"

#include "trireme/base/error.h"

namespace trireme {

Runner::Runner(Executor& executor) : executor_(executor) {
  const Program& program = executor.program();
  for (const ActionList& list : program.lists) {
    std::vector<Turn>& turns = lists_.emplace_back();
    for (const Action& action : list.actions) {
      if (action.kind != Action::Kind::kRun)
        throw_error("the list '{}' has a message of %{}, and messages can not be run yet", list.name,
                    action.what);
      const int segment = program.segment(action.what);
      if (segment < 0)
        throw_error("the list '{}' runs the segment '{}', which the program does not have", list.name,
                    action.what);
      turns.push_back({&action, segment});
      if (list.name == "step" && program.segments[segment].kind != SegmentKind::kUpdate &&
          updates_from_ + 1 == turns.size())
        ++updates_from_;
    }
  }
}

std::span<const Runner::Turn> Runner::turns(std::string_view list) const {
  const std::vector<ActionList>& lists = executor_.program().lists;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].name == list) return lists_[i];
  }
  throw_error("the program has no list of actions '{}'", list);
}

}  // namespace trireme

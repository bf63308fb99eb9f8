// Follows the lists of actions of a Program. What a rank does in a step, and in which order, stands in the
// list alone; who runs it only gives inputs before a segment is run and looks at outputs afterwards.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "trireme/runtime/executor.h"

namespace trireme {

class Runner {
 public:
  // The executor must outlive it. Throws Error when a list names a segment that is not there.
  explicit Runner(Executor& executor);

  // An action, with what it names looked up.
  struct Turn {
    const Action* action;
    int segment;
  };
  // A list's actions; an Error when there is no such list. Those before the first update make the gradients.
  std::span<const Turn> turns(std::string_view list) const;
  std::span<const Turn> gradient_turns() const { return turns("step").first(updates_from_); }
  std::span<const Turn> update_turns() const { return turns("step").subspan(updates_from_); }

  // Does them in order. before(turn) and after(turn) are called around each.
  template <typename Before, typename After>
  void run(std::span<const Turn> turns, const Before& before, const After& after) {
    for (const Turn& turn : turns) {
      before(turn);
      executor_.run(turn.segment, turn.action->slot);
      after(turn);
    }
  }

 private:
  Executor& executor_;
  std::vector<std::vector<Turn>> lists_;  // in the order of the program's
  size_t updates_from_ = 0;
};

}  // namespace trireme

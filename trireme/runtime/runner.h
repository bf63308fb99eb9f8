// Follows the lists of actions of a Program. What a rank does in a step, and in which order, stands in the
// list alone; who runs it only gives inputs before a segment is run and looks at outputs afterwards.
#pragma once

#include <span>
#include <vector>

#include "trireme/base/trace.h"
#include "trireme/runtime/executor.h"

namespace trireme {

class Runner {
 public:
  // The executor must outlive it, and the trace, where there is one, which gets an event for every segment.
  // Throws Error when a list names something that is not there.
  explicit Runner(Executor& executor, Trace* trace = nullptr);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // An action, with what it names looked up.
  struct Turn {
    const Action* action;
    int segment = -1;  // of a run
    int group = -1;    // of a fetch or a store, which are only started here; a run waits for what it needs
    // Of a message, which is started here and waited for where another turn says; or of a sum.
    const State* state = nullptr;
    int tag = 0;
    std::vector<const Turn*> waits = {};         // messages that must be through before
    std::vector<const Turn*> waits_behind = {};  // and behind it: of the last turn
    bool runs() const { return segment >= 0; }
  };
  Executor& executor() const { return executor_; }
  // The actions of a list of the program. Those before the first update make the gradients.
  std::span<const Turn> turns(const ActionList& list) const {
    return lists_[static_cast<size_t>(&list - executor_.program().lists.data())];
  }
  std::span<const Turn> gradient_turns() const {
    return turns(executor_.program().list(When::step())).first(updates_from_);
  }
  // Of a step, counted from 1: early ones may have updates of their own.
  std::span<const Turn> update_turns(int64_t step) const {
    return turns(executor_.program().step_list(step)).subspan(updates_from_);
  }

  // Of a list that is one message: begins it and returns its memory, by which the communicator knows it and
  // waits for it.
  const std::byte* begin(const ActionList& list, int64_t first_slot = 0);

  // The list of the program for this, to which nothing is given; nothing where it has none.
  void run(const When& when, int64_t first_slot = 0) {
    const auto nothing = [](const Turn&) {};
    if (const ActionList* list = executor_.program().find_list(when))
      run(turns(*list), nothing, nothing, first_slot);
  }

  // Does them in order. before(turn) and after(turn) are called around each that runs a segment. Slots are
  // counted from `first_slot` on: a pipeline that is not empty between steps continues with the next ones.
  template <typename Before, typename After>
  void run(std::span<const Turn> turns, const Before& before, const After& after, int64_t first_slot = 0) {
    for (const Turn& turn : turns) {
      if (turn.runs()) before(turn);
      wait(turn.waits, first_slot);
      if (turn.runs()) {
        run(turn, first_slot);
        after(turn);
      } else {
        start(turn, first_slot);
      }
      wait(turn.waits_behind, first_slot);
    }
  }

 private:
  std::vector<Turn> turns_of(const ActionList& list) const;
  Turn message(const Action& action) const;
  void run(const Turn& turn, int64_t first_slot);
  void start(const Turn& turn, int64_t first_slot);
  void wait(const std::vector<const Turn*>& messages, int64_t first_slot);
  std::byte* memory_of(const Turn& message, int64_t first_slot) const {
    return executor_.slot_memory(*message.state, first_slot + message.action->slot);
  }

  Executor& executor_;
  Trace* trace_;
  std::vector<std::vector<Turn>> lists_;  // in the order of the program's
  size_t updates_from_ = 0;
};

}  // namespace trireme

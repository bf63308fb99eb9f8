// Goes through a list once, with the messages that are under way and the memory that they read or write.
#include "trireme/program/waits.h"

#include <set>

#include "trireme/base/error.h"

namespace trireme {
namespace {

class Walk {
 public:
  Walk(const Program& program, const ActionList& list) : program_(program), list_(list) {}

  Waits run() {
    for (size_t i = 0; i < list_.actions.size(); ++i) {
      const Action& action = list_.actions[i];
      std::vector<int>& waits = result_.before.emplace_back();
      if (action.kind == Action::Kind::kRun) {
        run(program_.segments[program_.segment(action.what)].graph, action.slot, waits);
        continue;
      }
      if (action.is_of_file()) continue;  // who runs them waits for the group that a segment needs
      const Memory memory = memory_of(action.what, action.slot);
      if (action.is_of_sum()) {  // it ends where another action says, and messages of its slot before
        settle(memory, Touch::kWrite, waits);
        continue;
      }
      const bool sends = action.kind == Action::Kind::kSend;
      settle(memory, sends ? Touch::kRead : Touch::kWrite, waits);
      under_way_.push_back({static_cast<int>(i), memory});
    }
    for (const UnderWay& one : under_way_) result_.at_end.push_back(one.message);
    return std::move(result_);
  }

 private:
  struct Memory {
    size_t begin, end;
  };
  struct UnderWay {
    int message;
    Memory memory;
  };
  enum class Touch { kRead, kWrite };

  Memory memory_of(std::string_view name, int slot) const {
    const State* state = program_.find_state(name);
    TRIREME_CHECK(state);
    const size_t begin = state->place(slot);
    return {begin, begin + state->stride()};
  }

  void run(const Graph& graph, int slot, std::vector<int>& waits) {
    if (under_way_.empty()) return;
    std::set<ValueId> written;
    for (const Update& update : graph.updates) written.insert(update.state);
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].kind != Value::Kind::kState) continue;
      settle(memory_of(graph.values[v].name, slot),
             written.contains(static_cast<ValueId>(v)) ? Touch::kWrite : Touch::kRead, waits);
    }
  }

  // A send reads its memory, so that others may read it too.
  void settle(const Memory& memory, Touch touch, std::vector<int>& waits) {
    std::erase_if(under_way_, [&](const UnderWay& one) {
      if (one.memory.end <= memory.begin || memory.end <= one.memory.begin) return false;
      const bool done = touch == Touch::kWrite || list_.actions[one.message].kind == Action::Kind::kReceive;
      if (done) waits.push_back(one.message);
      return done;
    });
  }

  const Program& program_;
  const ActionList& list_;
  Waits result_;
  std::vector<UnderWay> under_way_;  // in the order in which they began
};

}  // namespace

Waits waits_of(const Program& program, const ActionList& list) {
  return Walk(program, list).run();
}

}  // namespace trireme

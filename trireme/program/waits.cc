// Goes through a list once, with the messages that are under way by state and slot.
#include "trireme/program/waits.h"

#include <algorithm>
#include <map>
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
      const Key key = key_of(action.what, action.slot);
      if (action.is_of_sum()) {  // it ends where another action says, and messages of its slot before
        settle(key, Touch::kWrite, waits);
        continue;
      }
      const bool sends = action.kind == Action::Kind::kSend;
      settle(key, sends ? Touch::kRead : Touch::kWrite, waits);
      under_way_[key].push_back(static_cast<int>(i));
    }
    for (const auto& [key, messages] : under_way_)
      result_.at_end.insert(result_.at_end.end(), messages.begin(), messages.end());
    std::ranges::sort(result_.at_end);
    return std::move(result_);
  }

 private:
  using Key = std::pair<size_t, int>;  // state and slot
  enum class Touch { kRead, kWrite };

  Key key_of(std::string_view name, int slot) const {
    const auto found = program_.state_numbers.find(name);
    TRIREME_CHECK(found != program_.state_numbers.end());
    return {found->second, slot % program_.states[found->second].slots};
  }

  void run(const Graph& graph, int slot, std::vector<int>& waits) {
    if (under_way_.empty()) return;
    std::set<ValueId> written;
    for (const Update& update : graph.updates) written.insert(update.state);
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].kind != Value::Kind::kState) continue;
      settle(key_of(graph.values[v].name, slot),
             written.contains(static_cast<ValueId>(v)) ? Touch::kWrite : Touch::kRead, waits);
    }
  }

  // A send reads its slot, so that others may read it too.
  void settle(const Key& key, Touch touch, std::vector<int>& waits) {
    const auto found = under_way_.find(key);
    if (found == under_way_.end()) return;
    std::erase_if(found->second, [&](int message) {
      const bool done = touch == Touch::kWrite || list_.actions[message].kind == Action::Kind::kReceive;
      if (done) waits.push_back(message);
      return done;
    });
    if (found->second.empty()) under_way_.erase(found);
  }

  const Program& program_;
  const ActionList& list_;
  Waits result_;
  std::map<Key, std::vector<int>> under_way_;
};

}  // namespace

Waits waits_of(const Program& program, const ActionList& list) {
  return Walk(program, list).run();
}

}  // namespace trireme

// The stays of groups in staging slots first, then the actions at their ends.
#include "trireme/program/file_turns.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace trireme {

std::vector<GroupUse> group_uses(const Program& program, const Graph& segment) {
  if (program.groups.empty()) return {};
  std::set<ValueId> read;
  for (const Node& node : segment.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  for (const Output& output : segment.outputs) read.insert(output.value);
  std::map<int, GroupUse> uses;
  std::map<int, size_t> renewed;  // states, by group
  const auto group_of = [&](ValueId value) {
    const Value& what = segment.values[value];
    return what.kind == Value::Kind::kState ? program.group_of(what) : -1;
  };
  for (const Update& update : segment.updates) {
    const int group = group_of(update.state);
    if (group < 0) continue;
    uses[group].writes = true;
    ++renewed[group];
  }
  for (ValueId value : read) {
    if (const int group = group_of(value); group >= 0) uses[group].reads = true;
  }
  std::vector<GroupUse> result;
  for (auto& [group, use] : uses) {
    use.group = group;
    const auto states = std::ranges::count_if(
        program.states, [number = group](const State& state) { return state.rests_in(number); });
    use.reads |= std::cmp_less(renewed[group], states);
    result.push_back(use);
  }
  return result;
}

namespace {

// In a slot, without another group in between.
struct Stay {
  GroupUse use;                  // its first use says whether it has to be fetched
  size_t first = 0, last = 0;    // actions
  std::optional<size_t> before;  // the stay that the slot had before it
};

std::vector<Stay> stays_of(const Program& program, const std::vector<Action>& actions) {
  std::vector<Stay> stays;
  std::map<int, size_t> in_slot;
  std::map<std::string_view, std::vector<GroupUse>> uses;
  for (size_t a = 0; a < actions.size(); ++a) {
    if (actions[a].kind != Action::Kind::kRun) continue;
    const auto [known, is_new] = uses.try_emplace(actions[a].what);
    if (is_new) known->second = group_uses(program, program.segments[program.segment(actions[a].what)].graph);
    for (const GroupUse& use : known->second) {
      const int slot = program.groups[use.group].slot;
      const auto taken = in_slot.find(slot);
      if (taken != in_slot.end() && stays[taken->second].use.group == use.group) {
        stays[taken->second].last = a;
        stays[taken->second].use.writes |= use.writes;
        continue;
      }
      Stay& stay = stays.emplace_back(Stay{use, a, a, {}});
      if (taken != in_slot.end()) stay.before = taken->second;
      in_slot[slot] = stays.size() - 1;
    }
  }
  return stays;
}

}  // namespace

std::vector<Action> with_file_turns(const Program& program, const std::vector<Action>& actions) {
  const std::vector<Stay> stays = stays_of(program, actions);
  std::vector<std::vector<Action>> ahead(actions.size() + 1);  // of each action; stores before fetches
  for (const Stay& stay : stays) {
    if (stay.use.writes) ahead[stay.last + 1].push_back(Action::store(program.groups[stay.use.group].name));
  }
  for (const Stay& stay : stays) {
    if (!stay.use.reads) continue;
    size_t at = 0;
    if (stay.before) {
      const Stay& before = stays[*stay.before];
      at = before.last + 1;
      if (before.use.writes) {
        while (at < stay.first && actions[at].kind != Action::Kind::kRun) ++at;
        if (at < stay.first) ++at;
      }
    }
    ahead[at].push_back(Action::fetch(program.groups[stay.use.group].name));
  }
  std::vector<Action> result;
  for (size_t a = 0; a <= actions.size(); ++a) {
    result.insert(result.end(), ahead[a].begin(), ahead[a].end());
    if (a < actions.size()) result.push_back(actions[a]);
  }
  return result;
}

double file_bytes_moved(const Program& program, const std::vector<Action>& actions) {
  double bytes = 0;
  for (const Action& action : actions) {
    if (action.is_of_file()) bytes += static_cast<double>(program.groups[program.group(action.what)].bytes);
  }
  return bytes;
}

}  // namespace trireme

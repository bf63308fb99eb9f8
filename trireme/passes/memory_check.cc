// Memory is kept as stretches of bytes, each with a tag: the value that was written there last.
#include "trireme/passes/memory_check.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/passes/byte_tags.h"

namespace trireme {
namespace {

constexpr int kWorkspace = -2;

struct Region {
  Space space;
  size_t begin, end;

  bool operator==(const Region&) const = default;
  bool overlaps(const Region& other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
};

class Player {
 public:
  Player(const Graph& graph, const MemoryPlan& plan) : graph_(graph), plan_(plan), tag_(graph.values.size()) {
    for (size_t i = 0; i < tag_.size(); ++i) tag_[i] = static_cast<int>(i);
  }

  std::string play() {
    // Of stashes that share memory, one that is only written holds nothing yet.
    const std::vector<std::vector<int>> readers = graph_.readers();
    for (const bool read : {false, true}) {
      for (size_t i = 0; i < graph_.values.size(); ++i) {
        if (graph_.values[i].kind != Value::Kind::kResult && !readers[i].empty() == read)
          write(region(static_cast<ValueId>(i)), tag_[i]);
      }
    }
    for (size_t n = 0; n < graph_.nodes.size() && fault_.empty(); ++n) run(static_cast<int>(n));
    for (const Update& copy : plan_.copies) {
      expect_holds(copy.value, "copied into its state");
      write(region(copy.state), tag_[copy.value]);
    }
    expect_results();
    return fault_;
  }

 private:
  Region region(ValueId id) const {
    const Location& at = plan_.values[id];
    return {at.space, at.offset, at.offset + graph_.type(id).bytes()};
  }
  void fault(std::string text) {
    if (fault_.empty()) fault_ = std::move(text);
  }
  const std::string& name(ValueId id) const { return graph_.values[id].name; }

  void write(const Region& region, int tag) {
    if (region.space == Space::kArena && region.end > plan_.arena_bytes) fault("a write past the arena");
    if (region.space == Space::kComm && region.end > plan_.comm_bytes) fault("a write past the comm memory");
    if (region.space == Space::kInputs && region.end > plan_.input_bytes) fault("a write past the inputs");
    memory_[region.space].write(region.begin, region.end, tag);
  }
  bool holds(const Region& region, int tag) {
    return memory_[region.space].hold(region.begin, region.end, tag);
  }
  void expect_holds(ValueId id, std::string_view when) {
    if (!holds(region(id), tag_[id]))
      fault(fmt::format("%{} is overwritten before it is {}", name(id), when));
  }

  void run(int n) {
    const Node& node = graph_.nodes[n];
    const Region workspace{Space::kArena, plan_.workspace[n], plan_.workspace[n] + plan_.workspace_bytes[n]};
    if (node.op->memory == OpRecord::Memory::kShared) {  // the same memory, and so the same content
      if (region(node.outputs[0]) != region(node.inputs[0]))
        fault(fmt::format("%{} does not share memory with its source", name(node.outputs[0])));
      expect_holds(node.inputs[0], "read");
      tag_[node.outputs[0]] = tag_[node.inputs[0]];
      return;
    }
    write(workspace, kWorkspace);
    for (ValueId input : node.inputs) expect_holds(input, "read");
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Region output = region(node.outputs[o]);
      if (output.overlaps(workspace)) fault(fmt::format("%{} lies in the workspace", name(node.outputs[o])));
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Region input = region(node.inputs[i]);
        const bool allowed = std::ranges::any_of(node.op->in_place, [&](const InPlace& pair) {
          return pair.output == static_cast<int>(o) && pair.input == static_cast<int>(i);
        });
        if (output.overlaps(input) && !(allowed && output == input))
          fault(fmt::format("%{} lies over %{}", name(node.outputs[o]), name(node.inputs[i])));
      }
      for (size_t other = 0; other < o; ++other) {
        if (output.overlaps(region(node.outputs[other])))
          fault(fmt::format("%{} lies over %{}", name(node.outputs[o]), name(node.outputs[other])));
      }
    }
    for (ValueId output : node.outputs) write(region(output), tag_[output]);
  }

  void expect_results() {
    std::vector<int> expected = tag_;
    for (const Update& update : graph_.updates) expected[update.state] = tag_[update.value];
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (graph_.values[i].kind != Value::Kind::kResult && !gives_way(static_cast<ValueId>(i)) &&
          !holds(region(static_cast<ValueId>(i)), expected[i]))
        fault(fmt::format("after the run %{} does not hold what it should", graph_.values[i].name));
    }
    for (const Output& output : graph_.outputs)
      expect_holds(output.value, "given out as '" + output.name + "'");
  }

  // A stash that this graph only reads, and whose memory another one takes that it makes. That nobody reads
  // it later, the lists say.
  bool gives_way(ValueId state) const {
    const bool made = std::ranges::find(graph_.updates, state, &Update::state) != graph_.updates.end();
    if (graph_.values[state].role != Role::kStash || made) return false;
    return std::ranges::any_of(graph_.updates, [&](const Update& update) {
      return update.state != state && graph_.values[update.state].role == Role::kStash &&
             region(update.state).overlaps(region(state));
    });
  }

  const Graph& graph_;
  const MemoryPlan& plan_;
  std::vector<int> tag_;  // per value: what its memory holds; reshapes hold what their source holds
  std::map<Space, ByteTags> memory_;
  std::string fault_;
};

}  // namespace

std::string find_memory_fault(const Graph& graph, const MemoryPlan& plan,
                              const std::vector<size_t>& state_offsets) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind != Value::Kind::kState) continue;
    if (plan.values[i].space != Space::kStates || plan.values[i].offset != state_offsets[i])
      return fmt::format("the state %{} is not where it was put", graph.values[i].name);
  }
  return Player(graph, plan).play();
}

}  // namespace trireme

// Every node gets a part: the last one whose states it depends on, or, where only one part needs what it
// makes, that one.
#include "trireme/passes/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

constexpr int kFirst = 0;  // the part that reads nothing from files
// Of all states' bytes, what a part has unless a parameter needs more: more parts are smaller in memory, but
// disks like long reads.
constexpr size_t kShares = 32;

bool rests_in_file(const Value& value) {
  return value.kind == Value::Kind::kState && value.role == Role::kOptimizer;
}

// State -> part, from 1 on. A parameter's states go together.
std::map<std::string, int, std::less<>> parts_of_states(const Graph& update) {
  std::vector<std::string> order;  // parameters
  std::map<std::string, size_t, std::less<>> bytes;
  size_t all = 0;
  for (const Value& value : update.values) {
    if (!rests_in_file(value)) continue;
    const std::string of(value.attrs.text("of"));
    if (!bytes.contains(of)) order.push_back(of);
    bytes[of] += value.type.bytes();
    all += value.type.bytes();
  }
  size_t most = all / kShares;
  for (const auto& [of, size] : bytes) most = std::max(most, size);
  std::map<std::string, int, std::less<>> part_of_parameter, result;
  int part = kFirst;
  size_t room = 0;
  for (const std::string& of : order) {
    if (part == kFirst || bytes[of] > room) {
      ++part;
      room = most;
    }
    room -= bytes[of];
    part_of_parameter[of] = part;
  }
  for (const Value& value : update.values) {
    if (rests_in_file(value)) result[value.name] = part_of_parameter[std::string(value.attrs.text("of"))];
  }
  return result;
}

class Splitter {
 public:
  Splitter(const Graph& update, const Graph& like, const OpTable& ops)
      : graph_(update), ops_(ops), part_of_state_(parts_of_states(like)), readers_(update.readers()) {
    for (const auto& [state, part] : part_of_state_) last_ = std::max(last_, part);
    place_nodes();
  }

  std::vector<UpdatePart> run() {
    for (int part = kFirst; part <= last_; ++part) {
      const std::string name = part == last_ ? graph_.name : fmt::format("{}.{}", graph_.name, part);
      building_.push_back({Builder(ops_, name), {}});
      for (size_t v = 0; v < graph_.values.size(); ++v) {
        if (graph_.values[v].kind == Value::Kind::kInput) had(part, static_cast<ValueId>(v));
      }
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) add(static_cast<int>(n));
    for (const Update& update : graph_.updates) {
      const int part = part_of(update.value);
      building_[part].builder.update(had(part, update.state), had(part, update.value));
    }
    for (const Output& output : graph_.outputs)
      building_[last_].builder.output(output.name, had(last_, output.value), output.role);
    for (const auto& [value, kept] : kept_) {
      Builder& b = building_[part_of(value)].builder;
      b.update(b.declare(kept), building_[part_of(value)].locals.at(value));
    }
    return finish();
  }

 private:
  struct Building {
    Builder builder;
    std::map<ValueId, ValueId> locals;  // of the whole update's values
  };

  void place_nodes() {
    part_of_node_.assign(graph_.nodes.size(), kFirst);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (ValueId input : graph_.nodes[n].inputs)
        part_of_node_[n] = std::max(part_of_node_[n], part_of(input));
    }
    std::vector<bool> wanted(graph_.values.size());  // by other than nodes
    for (const Update& update : graph_.updates) wanted[update.value] = true;
    for (const Output& output : graph_.outputs) wanted[output.value] = true;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (part_of_node_[n] != kFirst) continue;
      int only = -1;
      bool one = true;
      for (ValueId output : graph_.nodes[n].outputs) {
        one = one && !wanted[output];
        for (int reader : readers_[output]) {
          one = one && (only < 0 || only == part_of_node_[reader]);
          only = part_of_node_[reader];
        }
      }
      if (one && only > kFirst) part_of_node_[n] = only;
    }
    for (const Update& update : graph_.updates) {
      for (int reader : readers_[update.state]) {
        if (part_of_node_[reader] > part_of(update.value))
          throw_error(
              "%{} is renewed in one part of the update and read in a later one; states of this "
              "optimizer can not rest in files",
              graph_.values[update.state].name);
      }
    }
  }

  int part_of(ValueId value) const {
    const Value& what = graph_.values[value];
    if (what.kind == Value::Kind::kResult) return part_of_node_[what.node];
    const auto found = part_of_state_.find(what.name);
    return found == part_of_state_.end() ? kFirst : found->second;
  }

  void add(int n) {
    const Node& node = graph_.nodes[n];
    const int part = part_of_node_[n];
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(had(part, input));
    Building& here = building_[part];
    const std::vector<ValueId> results = here.builder.copy(graph_, node, inputs, node.attrs);
    for (size_t o = 0; o < results.size(); ++o) here.locals[node.outputs[o]] = results[o];
  }

  ValueId had(int part, ValueId value) {
    Building& here = building_[part];
    if (const auto found = here.locals.find(value); found != here.locals.end()) return found->second;
    const Value& what = graph_.values[value];
    if (what.kind != Value::Kind::kResult) return here.locals[value] = here.builder.declare(what);
    TRIREME_CHECK(part_of(value) < part);
    const Value kept{"kept." + what.name, what.type, Value::Kind::kState, -1, Role::kStash, {}};
    kept_.emplace(value, kept);
    return here.locals[value] = here.builder.declare(kept);
  }

  std::vector<UpdatePart> finish() {
    std::vector<UpdatePart> parts;
    for (Building& building : building_) {
      debug_verify(building.builder.graph());
      parts.push_back({building.builder.take(), {}});
    }
    for (const Value& value : graph_.values) {
      if (rests_in_file(value)) parts[part_of_state_.at(value.name)].states.push_back(value.name);
    }
    return parts;
  }

  const Graph& graph_;
  const OpTable& ops_;
  std::map<std::string, int, std::less<>> part_of_state_;
  std::vector<std::vector<int>> readers_;
  int last_ = kFirst;
  std::vector<int> part_of_node_;
  std::vector<Building> building_;
  std::map<ValueId, Value> kept_;
};

}  // namespace

std::vector<UpdatePart> split_update(const Graph& update, const Graph& like, const OpTable& ops) {
  return Splitter(update, like, ops).run();
}

}  // namespace trireme

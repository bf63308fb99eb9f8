// Chooses by scopes and costs, then writes the nodes anew: the forward part as it is, and before each
// backward node the clones that it needs and that are not there yet, in the order of the nodes that they
// repeat.
#include "trireme/passes/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ir/scope.h"
#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

std::vector<bool> made_from_states(const Graph& graph) {
  std::vector<bool> result(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) result[v] = graph.values[v].kind == Value::Kind::kState;
  for (const Node& node : graph.nodes) {
    const bool all = std::ranges::all_of(node.inputs, [&](ValueId input) { return result[input]; });
    for (ValueId output : node.outputs) result[output] = all;
  }
  return result;
}

bool is_block(std::string_view scope) {
  return !scope.empty() && std::isdigit(static_cast<unsigned char>(scope.back()));
}

// Of a path, what has as many parts as a pattern; "" where it has fewer.
std::string_view beginning(std::string_view path, std::string_view pattern) {
  size_t end = 0;
  for (int64_t parts = std::ranges::count(pattern, '/'); parts >= 0; --parts) {
    if (end == path.npos) return "";
    end = path.find('/', end == 0 ? 0 : end + 1);
  }
  return path.substr(0, end);
}

class Chooser {
 public:
  Chooser(const Graph& graph, const Recompute& what)
      : graph_(graph),
        what_(what),
        begin_(backward_begin(graph)),
        from_states_(made_from_states(graph)),
        stays_(graph.values.size()),
        read_later_(graph.values.size()),
        readers_(graph.readers()),
        again_(graph.values.size()) {
    for (const Update& update : graph.updates) stays_[update.value] = true;
    for (const Output& output : graph.outputs) stays_[output.value] = true;
    for (size_t v = 0; v < graph.values.size(); ++v)
      read_later_[v] = !readers_[v].empty() && readers_[v].back() >= begin_;
  }

  std::vector<bool> run() {
    for (int n = 0; n < begin_; ++n) units_.emplace_back(unit_of(n));
    for (int n = 0; n < begin_; ++n) {
      for (ValueId value : graph_.nodes[n].outputs) again_[value] = chosen(n, value);
    }
    check_found();
    return std::move(again_);
  }

 private:
  // The scope for which a node works; nothing where what it makes is not to be made again.
  std::optional<std::string_view> unit_of(int n) {
    const std::string_view scope = scope_of(graph_, graph_.nodes[n]);
    const std::string_view top = scope.substr(0, scope.find('/'));
    if (what_.kind == Recompute::Kind::kSelective) return top;
    if (repeats_blocks()) return is_block(top) ? std::optional(top) : std::nullopt;
    // Of patterns that overlap, h.0 and h.0/mlp, the widest scope counts, in whatever order they stand.
    std::optional<std::string_view> widest;
    for (const std::string& pattern : what_.names) {
      const std::string_view start = beginning(scope, pattern);
      if (start.empty() || !fits_pattern(pattern, start)) continue;
      found_.insert(pattern);
      if (!widest || start.size() < widest->size()) widest = start;
    }
    return widest;
  }

  bool repeats_blocks() const {
    return what_.kind == Recompute::Kind::kFull || what_.kind == Recompute::Kind::kFullKeepCollectives;
  }

  bool is_named(ValueId value) {
    bool named = false;
    for (const std::string& pattern : what_.names) {
      if (!fits_pattern(pattern, graph_.values[value].name)) continue;
      found_.insert(pattern);
      named = true;
    }
    return named;
  }

  bool chosen(int n, ValueId value) {
    const bool named = is_named(value);
    if (from_states_[value]) return false;  // is not kept, whatever the plan says
    if (named) return true;
    const bool kept_collective = graph_.nodes[n].op->collective && what_.kind != Recompute::Kind::kFull;
    if (!units_[n] || stays_[value] || kept_collective) return false;
    const bool for_others = std::ranges::any_of(
        readers_[value], [&](int reader) { return reader < begin_ && units_[reader] != units_[n]; });
    return !for_others && (what_.kind != Recompute::Kind::kSelective || gains(n));
  }

  // Whether making the results again costs little and needs next to nothing that would not be kept without
  // them.
  bool gains(int n) {
    const Node& node = graph_.nodes[n];
    double bytes = 0, more = 0;
    for (ValueId output : node.outputs) bytes += static_cast<double>(graph_.type(output).bytes());
    for (ValueId input : node.inputs) {
      if (!is_there(input)) more += static_cast<double>(graph_.type(input).bytes());
    }
    if (more > kMostMorePerByte * bytes || cost_of(graph_, node).flops > kMostFlopsPerByte * bytes)
      return false;
    for (ValueId input : node.inputs) read_later_[input] = true;
    return true;
  }
  // In the backward part, whatever becomes of the values that are still to be decided on.
  bool is_there(ValueId value) const {
    return graph_.values[value].kind != Value::Kind::kResult || from_states_[value] || again_[value] ||
           read_later_[value];
  }

  void check_found() const {
    if (begin_ == std::ssize(graph_.nodes)) return;  // there is nothing to be kept for
    if (repeats_blocks() && std::ranges::none_of(units_, [](const auto& unit) { return unit.has_value(); })) {
      throw_error(
          "the plan says \"recompute\": \"{}\", but this model has no blocks: scopes of the first level "
          "whose names end in a number, h.3; say \"selective\", or name scopes",
          name(what_.kind));
    }
    for (const std::string& pattern : what_.names) {
      if (found_.contains(pattern)) continue;
      std::vector<std::string> names;
      for (int n = 0; n < begin_; ++n) names.emplace_back(scope_of(graph_, graph_.nodes[n]));
      const std::string near = nearest(pattern, names);
      throw_error(
          "the plan recomputes '{}', but no scope and no value of this model's forward part is called so{}; "
          "`trireme inspect graph` shows all names",
          pattern, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
    }
  }

  const Graph& graph_;
  const Recompute& what_;
  const int begin_;
  const std::vector<bool> from_states_;
  std::vector<bool> stays_, read_later_;
  const std::vector<std::vector<int>> readers_;
  std::vector<std::optional<std::string_view>> units_;  // per forward node
  std::vector<bool> again_;
  std::set<std::string, std::less<>> found_;  // patterns
};

class RecomputeWriter {
 public:
  RecomputeWriter(const Graph& graph, const std::vector<bool>& again)
      : graph_(graph),
        again_(again),
        begin_(backward_begin(graph)),
        from_states_(made_from_states(graph)),
        result_(graph),
        clone_of_(graph.values.size(), kNoValue),
        placed_(graph.nodes.size()) {}

  Graph run() {
    find_twins();
    result_.nodes.clear();
    for (int n = 0; n < std::ssize(graph_.nodes); ++n) {
      if (n >= begin_) add_clones_for(n);
      place(n);
    }
    debug_verify(result_);
    return std::move(result_);
  }

 private:
  // Of values that are made from states in the same way, the one that is made last.
  void find_twins() {
    std::map<std::string, ValueId> last;
    std::vector<std::string> keys(graph_.values.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) keys[v] = std::to_string(v);
    for (const Node& node : graph_.nodes) {
      if (!from_states_[node.outputs[0]]) continue;
      std::string key(node.op->name);
      for (ValueId input : node.inputs) key += " " + keys[input];
      key += print(node.attrs);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        keys[node.outputs[o]] = fmt::format("({}).{}", key, o);
        last[keys[node.outputs[o]]] = node.outputs[o];
      }
    }
    twin_.resize(graph_.values.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const auto found = last.find(keys[v]);
      twin_[v] = found == last.end() ? static_cast<ValueId>(v) : found->second;
    }
  }

  void append(Node node) {
    for (ValueId output : node.outputs) result_.values[output].node = static_cast<int>(result_.nodes.size());
    result_.nodes.push_back(std::move(node));
  }

  bool is_again(ValueId value) const {
    const int maker = graph_.values[value].node;
    return again_[value] && maker >= 0 && maker < begin_;
  }

  // A node of the graph, where it is not there yet, and before it those that it reads from.
  void place(int n) {
    if (placed_[n]) return;
    placed_[n] = true;
    Node node = graph_.nodes[n];
    for (ValueId& input : node.inputs) {
      if (n >= begin_ && is_again(input))
        input = clone_of_[input];
      else if (graph_.values[input].node >= begin_)
        place(graph_.values[input].node);
    }
    append(std::move(node));
  }

  void add_clones_for(int n) {
    std::set<int> needed;
    std::vector<int> reading = {n};
    while (!reading.empty()) {
      const Node& node = graph_.nodes[reading.back()];
      reading.pop_back();
      for (ValueId input : node.inputs) {
        if (!is_again(input) || clone_of_[input] != kNoValue) continue;
        if (needed.insert(graph_.values[input].node).second) reading.push_back(graph_.values[input].node);
      }
    }
    for (int maker : needed) add_clone(graph_.nodes[maker]);
  }

  void add_clone(const Node& original) {
    Node clone = original;
    for (ValueId& input : clone.inputs) {
      if (is_again(input)) {
        input = clone_of_[input];
      } else if (from_states_[input] && graph_.values[twin_[input]].node >= begin_) {
        input = twin_[input];
        place(graph_.values[input].node);
      }
    }
    for (ValueId& output : clone.outputs) {
      Value value = graph_.values[output];
      value.name = name_again(value.name);
      clone_of_[output] = static_cast<ValueId>(result_.values.size());
      output = clone_of_[output];
      result_.values.push_back(std::move(value));
    }
    append(std::move(clone));
  }

  const Graph& graph_;
  const std::vector<bool>& again_;
  const int begin_;
  const std::vector<bool> from_states_;
  Graph result_;
  std::vector<ValueId> clone_of_;  // per value; kNoValue where there is none (yet)
  std::vector<ValueId> twin_;      // per value
  std::vector<bool> placed_;       // per node
};

}  // namespace

std::vector<bool> values_made_again(const Graph& graph, const Recompute& what) {
  if (what.kind == Recompute::Kind::kNone) return std::vector<bool>(graph.values.size());
  return Chooser(graph, what).run();
}

Graph recompute(const Graph& graph, const std::vector<bool>& again) {
  TRIREME_CHECK(again.size() == graph.values.size());
  if (std::ranges::find(again, true) == again.end()) return graph;
  return RecomputeWriter(graph, again).run();
}

int backward_begin(const Graph& graph) {
  const auto first = std::ranges::find_if(
      graph.nodes, [&](const Node& node) { return has_part(scope_of(graph, node), kGradientPart); });
  return static_cast<int>(first - graph.nodes.begin());
}

size_t kept_bytes(const Graph& graph) {
  const int begin = backward_begin(graph);
  const std::vector<bool> from_states = made_from_states(graph);
  std::vector<ValueId> owner(graph.values.size());  // of what shares memory, the value that was made first
  for (size_t v = 0; v < owner.size(); ++v) owner[v] = static_cast<ValueId>(v);
  std::set<ValueId> kept;
  for (int n = 0; n < std::ssize(graph.nodes); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op->memory == OpRecord::Memory::kShared) owner[node.outputs[0]] = owner[node.inputs[0]];
    if (n < begin) continue;
    for (ValueId input : node.inputs) {
      const int maker = graph.values[owner[input]].node;
      if (maker >= 0 && maker < begin && !from_states[input]) kept.insert(owner[input]);
    }
  }
  size_t bytes = 0;
  for (ValueId value : kept) bytes += graph.type(value).bytes();
  return bytes;
}

}  // namespace trireme

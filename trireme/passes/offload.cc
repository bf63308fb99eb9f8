// Every node gets a part: the last one whose states it depends on, or, where only one part needs what it
// makes, that one.
#include "trireme/passes/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/verify.h"
#include "trireme/passes/row_pieces.h"

namespace trireme {
namespace {

// Of all states' bytes, what a part has unless a parameter needs more: more parts are smaller in memory, but
// disks like long reads.
constexpr size_t kShares = 64;
// Rows of a piece are a multiple, so that pieces begin where memory is aligned.
constexpr int64_t kRowsTogether = 32;
constexpr int kInMemory = -1;  // the chunk of a parameter whose weights and gradients stay there

bool rests_in_file(const Value& value) {
  return value.role == Role::kOptimizer || value.role == Role::kMaster;
}

// Of all bytes of an update that rest in files, what a part has.
size_t share_of(const Graph& update) {
  size_t all = 0;
  for (const Value& value : update.values) all += rests_in_file(value) ? value.type.bytes() : 0;
  return all / kShares;
}

// The parameter that a state is, or goes with.
std::string parameter_of(const Value& state) {
  return std::string(state.role == Role::kParameter ? state.name : state.attrs.text("of", ""));
}

int chunk_of(const ChunksInFiles& chunks, const std::string& parameter) {
  const auto found = chunks.of_parameter.find(parameter);
  return found == chunks.of_parameter.end() ? kInMemory : found->second;
}

struct Parts {
  std::map<std::string, int, std::less<>> of_parameter;  // from `first` on
  std::vector<int> chunks;                               // of those parts
};

// Parameters, chunk by chunk, in parts of about as many bytes in files.
Parts parts_of_parameters(const Graph& update, const ChunksInFiles& chunks, int first) {
  std::vector<std::string> order;
  std::map<std::string, size_t, std::less<>> bytes;
  for (const Value& value : update.values) {
    const std::string of = parameter_of(value);
    const bool in_file = rests_in_file(value);
    if (of.empty() || !(in_file || chunk_of(chunks, of) != kInMemory)) continue;
    if (!bytes.contains(of)) order.push_back(of);
    bytes[of] += in_file ? value.type.bytes() : 0;
  }
  std::ranges::stable_sort(order, {}, [&](const std::string& of) { return chunk_of(chunks, of); });
  const size_t most = share_of(update);
  Parts parts;
  size_t room = 0;
  for (const std::string& of : order) {
    const int chunk = chunk_of(chunks, of);
    if (parts.chunks.empty() || parts.chunks.back() != chunk || bytes[of] > room) {
      parts.chunks.push_back(chunk);
      room = std::max(most, bytes[of]);
    }
    room -= bytes[of];
    parts.of_parameter[of] = first + static_cast<int>(parts.chunks.size()) - 1;
  }
  return parts;
}

class Splitter {
 public:
  Splitter(const Graph& update, const Graph& like, const OpTable& ops, const ChunksInFiles& chunks)
      : graph_(update),
        ops_(ops),
        chunks_(chunks),
        first_(std::max(1, chunks.chunks)),
        parts_(parts_of_parameters(like, chunks, first_)),
        last_(first_ + static_cast<int>(parts_.chunks.size()) - 1),
        readers_(update.readers()) {
    place_nodes();
  }

  std::vector<UpdatePart> run() {
    for (int part = 0; part <= last_; ++part) {
      const std::string name = part == last_ ? graph_.name : fmt::format("{}.{}", graph_.name, part);
      building_.emplace_back(graph_, ops_, name);
      for (size_t v = 0; v < graph_.values.size(); ++v) {
        if (graph_.values[v].kind == Value::Kind::kInput) had(part, static_cast<ValueId>(v));
      }
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) add(static_cast<int>(n), part_of_node_[n]);
    for (const Update& update : graph_.updates) {
      const int part = part_of(update.value);
      building_[part].builder().update(had(part, update.state), had(part, update.value));
    }
    for (const Output& output : graph_.outputs)
      building_[last_].builder().output(output.name, had(last_, output.value), output.role);
    for (const auto& [value, kept] : kept_) {
      GraphCopy& copy = building_[part_of(value)];
      copy.builder().update(copy.builder().declare(kept), copy[value]);
    }
    return finish();
  }

 private:
  bool is_one_of_the_first(int part) const { return part < first_; }
  int chunk_of_part(int part) const { return parts_.chunks[static_cast<size_t>(part - first_)]; }

  void place_nodes() {
    part_of_node_.assign(graph_.nodes.size(), 0);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (ValueId input : graph_.nodes[n].inputs)
        part_of_node_[n] = std::max(part_of_node_[n], part_of(input));
    }
    std::vector<bool> wanted(graph_.values.size());  // by other than nodes
    for (const Update& update : graph_.updates) wanted[update.value] = true;
    for (const Output& output : graph_.outputs) wanted[output.value] = true;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (!is_one_of_the_first(part_of_node_[n])) continue;
      const bool one = std::ranges::none_of(graph_.nodes[n].outputs, [&](ValueId v) { return wanted[v]; });
      const std::set<int> readers = parts_that_read(graph_.nodes[n]);
      if (one && readers.size() == 1 && may_move(static_cast<int>(n), *readers.begin()))
        part_of_node_[n] = *readers.begin();
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

  std::set<int> parts_that_read(const Node& node) const {
    std::set<int> parts;
    for (ValueId output : node.outputs) {
      for (int reader : readers_[output]) parts.insert(part_of_node_[reader]);
    }
    return parts;
  }

  // To a part that has the optimizer's states, and the gradients that the node reads.
  bool may_move(int node, int part) const {
    if (is_one_of_the_first(part)) return false;
    return std::ranges::all_of(graph_.nodes[node].inputs, [&](ValueId input) {
      const Value& what = graph_.values[input];
      const int chunk = what.kind == Value::Kind::kState ? chunk_of(chunks_, parameter_of(what)) : kInMemory;
      return chunk == kInMemory || chunk == chunk_of_part(part);
    });
  }

  int part_of(ValueId value) const {
    const Value& what = graph_.values[value];
    if (what.kind == Value::Kind::kResult) return part_of_node_[what.node];
    if (what.kind != Value::Kind::kState) return 0;
    const std::string of = parameter_of(what);
    const int chunk = chunk_of(chunks_, of);
    if (what.role == Role::kGradient) return std::max(0, chunk);
    return rests_in_file(what) || chunk != kInMemory ? parts_.of_parameter.at(of) : 0;
  }

  // Of gradients that a later part has in memory: the sum of several, say. What is small is kept.
  bool may_make_again(ValueId value, int part) const {
    const int maker = graph_.values[value].node;
    const Node& node = graph_.nodes[maker];
    return graph_.type(value).shape.rank() > 0 && !node.op->collective && may_move(maker, part) &&
           std::ranges::all_of(node.inputs,
                               [&](ValueId input) { return graph_.values[input].role == Role::kGradient; });
  }

  void add(int n, int part) {
    const Node& node = graph_.nodes[n];
    for (ValueId input : node.inputs) had(part, input);
    building_[part].add(node);
  }

  ValueId had(int part, ValueId value) {
    GraphCopy& here = building_[part];
    if (here.has(value)) return here[value];
    const Value& what = graph_.values[value];
    if (what.kind != Value::Kind::kResult) return here.declare(value);
    TRIREME_CHECK(part_of(value) < part);
    if (may_make_again(value, part)) {
      add(what.node, part);
      return here[value];
    }
    const Value kept{"kept." + what.name, what.type, Value::Kind::kState, -1, Role::kStash, {}};
    kept_.emplace(value, kept);
    return here.set(value, here.builder().declare(kept));
  }

  std::vector<UpdatePart> finish() {
    std::vector<UpdatePart> parts;
    for (int part = 0; part <= last_; ++part) {
      debug_verify(building_[part].builder().graph());
      parts.push_back({building_[part].take()});
      if (!is_one_of_the_first(part))
        parts.back().chunk = chunk_of_part(part);
      else if (part < chunks_.chunks)
        parts.back().chunk = part;
    }
    for (const Value& value : graph_.values) {
      if (value.kind == Value::Kind::kState && rests_in_file(value))
        parts[parts_.of_parameter.at(parameter_of(value))].states.push_back(value.name);
    }
    for (const auto& [value, kept] : kept_) {
      const int part = part_of(value);
      if (is_one_of_the_first(part) && is_for_chunk(value, parts[part].chunk))
        parts[part].kept.push_back(kept.name);
    }
    // Of chunks without gradients. The last part stands for the update, and stays.
    parts.erase(std::remove_if(parts.begin(), parts.end() - 1,
                               [](const UpdatePart& part) {
                                 return part.graph.nodes.empty() && part.graph.updates.empty();
                               }),
                parts.end() - 1);
    return parts;
  }

  // Whether, beside its own part, those of a chunk alone read it.
  bool is_for_chunk(ValueId value, int chunk) const {
    if (chunk == kInMemory ||
        std::ranges::find(graph_.outputs, value, &Output::value) != graph_.outputs.end())
      return false;
    return std::ranges::all_of(readers_[value], [&](int reader) {
      const int part = part_of_node_[reader];
      return is_one_of_the_first(part) ? part == chunk : chunk_of_part(part) == chunk;
    });
  }

  const Graph& graph_;
  const OpTable& ops_;
  const ChunksInFiles& chunks_;
  int first_;  // of the parts that have states of the optimizer; those before have none
  Parts parts_;
  int last_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> part_of_node_;
  std::vector<GraphCopy> building_;
  std::map<ValueId, Value> kept_;
};

}  // namespace

std::vector<UpdatePart> split_update(const Graph& update, const Graph& like, const OpTable& ops,
                                     const ChunksInFiles& chunks) {
  return Splitter(update, like, ops, chunks).run();
}

PartPieces in_pieces(const UpdatePart& part, const Graph& update, const OpTable& ops) {
  const size_t share = share_of(update);
  size_t own = 0;
  const Value* first = nullptr;
  bool alike = true;  // one parameter's
  for (const Value& value : update.values) {
    if (std::ranges::find(part.states, value.name) == part.states.end()) continue;
    own += value.type.bytes();
    if (!first) first = &value;
    alike = alike && value.type.shape == first->type.shape && parameter_of(value) == parameter_of(*first);
  }
  if (!first || !alike || own <= share || first->type.shape.rank() == 0) return {{part.graph}, 0};
  const Shape& shape = first->type.shape;
  const auto fitting = static_cast<int64_t>(share * static_cast<size_t>(shape[0]) / own);
  const int64_t rows = std::max(kRowsTogether, fitting / kRowsTogether * kRowsTogether);
  PartPieces pieces{in_row_pieces(part.graph, shape, rows, ops), rows};
  if (pieces.graphs.size() == 1) pieces.rows = 0;
  return pieces;
}

}  // namespace trireme

// Units in order, then the split of their costs into runs.
#include "trireme/passes/cut.h"

#include <algorithm>
#include <limits>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

// "h.3" of "h.3/attn/matmul"; "" of a name without a scope.
std::string_view unit_of(std::string_view name) {
  const size_t slash = name.find('/');
  return slash == name.npos ? "" : name.substr(0, slash);
}

// FLOPs that a byte of memory traffic costs about as much as, on CPUs and GPUs alike to a factor of a few.
constexpr double kFlopsPerByte = 10;

}  // namespace

Units units_of(const Graph& forward) {
  Units units;
  std::map<std::string, size_t, std::less<>> numbers;
  for (const Node& node : forward.nodes) {
    const std::string_view unit = unit_of(forward.values[node.outputs[0]].name);
    if (unit.empty()) continue;
    const auto [found, is_new] = numbers.emplace(unit, units.names.size());
    if (is_new) {
      units.names.emplace_back(unit);
      units.costs.push_back(0);
    }
    units.costs[found->second] += weighed_cost(forward, node);
  }
  return units;
}

namespace {

void check_number(const Units& units, int chunks) {
  if (chunks <= std::ssize(units.names)) return;
  throw_error(
      "the pipeline has {} chunks (stages times chunks of each), but this model has {} parts that can be "
      "told apart: {}; fewer stages or chunks, or more layers, are needed",
      chunks, units.names.size(), join(units.names, ", "));
}

Cut cut_of(const Units& units, const std::vector<size_t>& begins) {
  Cut cut{.chunks = static_cast<int>(begins.size()) + 1, .units = units.names};
  for (size_t u = 0; u < units.names.size(); ++u)
    cut.chunk_of[units.names[u]] =
        static_cast<int>(std::ranges::count_if(begins, [&](size_t begin) { return begin <= u; }));
  return cut;
}

}  // namespace

std::vector<size_t> balanced_begins(const std::vector<double>& costs, int runs) {
  return balanced_begins(std::vector(static_cast<size_t>(runs), costs));
}

// The split of units [0, n) into k runs, as the table of what the largest run of the best split costs.
std::vector<size_t> balanced_begins(const std::vector<std::vector<double>>& costs) {
  int chunks = static_cast<int>(costs.size());
  const size_t units = costs[0].size();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(chunks + 1, std::vector<double>(units + 1, kNever));
  std::vector<std::vector<size_t>> from(chunks + 1, std::vector<size_t>(units + 1, 0));
  best[0][0] = 0;
  std::vector<double> before(units + 1, 0);
  for (int c = 1; c <= chunks; ++c) {
    for (size_t u = 0; u < units; ++u) before[u + 1] = before[u] + costs[c - 1][u];
    for (size_t end = c; end <= units; ++end) {
      for (size_t begin = c - 1; begin < end; ++begin) {
        const double largest = std::max(best[c - 1][begin], before[end] - before[begin]);
        if (largest >= best[c][end]) continue;
        best[c][end] = largest;
        from[c][end] = begin;
      }
    }
  }
  std::vector<size_t> begins;
  for (size_t end = units; chunks > 1; --chunks) begins.insert(begins.begin(), end = from[chunks][end]);
  return begins;
}

double weighed_cost(const Graph& graph, const Node& node) {
  const Cost cost = cost_of(graph, node);
  return std::max(cost.flops, kFlopsPerByte * cost.bytes);
}

int Cut::chunk_of_name(std::string_view name) const {
  const auto found = chunk_of.find(unit_of(name));
  return found == chunk_of.end() ? -1 : found->second;
}

Cut balanced_cut(const Graph& forward, int chunks) {
  const Units units = units_of(forward);
  check_number(units, chunks);
  return cut_of(units, balanced_begins(units.costs, chunks));
}

Cut cut_by_weights(const Graph& forward) {
  std::map<ValueId, std::set<std::string_view>> readers;  // of parameters
  for (const Node& node : forward.nodes) {
    const std::string_view unit = unit_of(forward.values[node.outputs[0]].name);
    for (ValueId input : node.inputs) {
      if (!unit.empty() && forward.values[input].role == Role::kParameter) readers[input].insert(unit);
    }
  }
  std::map<std::string_view, size_t> bytes;
  for (const auto& [parameter, of] : readers) {
    if (of.size() == 1) bytes[*of.begin()] += forward.values[parameter].type.bytes();
  }
  size_t largest = 0;
  for (const auto& [unit, size] : bytes) largest = std::max(largest, size);
  const Units units = units_of(forward);
  std::vector<size_t> begins;
  size_t taken = 0;
  for (size_t u = 0; u < units.names.size(); ++u) {
    if (taken + bytes[units.names[u]] > largest + largest / 8) {
      begins.push_back(u);
      taken = 0;
    }
    taken += bytes[units.names[u]];
  }
  return cut_of(units, begins);
}

Cut cut_at(const Graph& forward, int chunks, const std::vector<std::string>& begins) {
  const Units units = units_of(forward);
  if (std::ssize(begins) != chunks - 1)
    throw_error(
        "the plan names {} scopes at which to cut (stages), but a pipeline of {} chunks is cut at {}; name "
        "as many, or leave stages out for a balanced cut",
        begins.size(), chunks, chunks - 1);
  std::vector<size_t> numbers;
  for (const std::string& begin : begins) {
    const size_t unit = std::ranges::find(units.names, begin) - units.names.begin();
    if (unit == units.names.size())
      throw_error("the plan cuts at '{}' (stages), which is no part of this model; {}", begin,
                  suggestion(begin, units.names));
    if (unit == 0 || (!numbers.empty() && unit <= numbers.back()))
      throw_error(
          "the plan cuts at {} (stages), but the parts of this model come in the order {}; each stage "
          "needs one at least",
          join(begins, ", "), join(units.names, ", "));
    numbers.push_back(unit);
  }
  return cut_of(units, numbers);
}

std::vector<bool> made_of_states(const Graph& graph) {
  std::vector<bool> value(graph.values.size()), result;
  for (size_t v = 0; v < value.size(); ++v) value[v] = graph.values[v].kind == Value::Kind::kState;
  for (const Node& node : graph.nodes) {
    const bool all = std::ranges::all_of(node.inputs, [&](ValueId input) { return value[input]; });
    result.push_back(all);
    for (ValueId output : node.outputs) value[output] = all;
  }
  return result;
}

namespace {

class Casts {
 public:
  Casts(const Graph& graph, const Cut& cut, const OpTable& ops)
      : graph_(graph), cut_(cut), of_states_(made_of_states(graph)), copy_(graph, ops, graph.name) {}

  Graph run() {
    copy_.declare_all();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!of_states_[n]) copy_.add(node, inputs_for(node, reader_of(node)), node.attrs);
    }
    copy_.finish([&](ValueId value) { return had(value, {}); });
    debug_verify(copy_.builder().graph());
    return copy_.take();
  }

 private:
  // Of one reader: its chunk, and the unit in which copies for it are named.
  struct Reader {
    int chunk = 0;
    std::string unit;
  };
  Reader reader_of(const Node& node) const {
    const std::string& name = graph_.values[node.outputs[0]].name;
    return {std::max(0, cut_.chunk_of_name(name)), std::string(unit_of(name))};
  }

  std::vector<ValueId> inputs_for(const Node& node, const Reader& reader) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(had(input, reader));
    return inputs;
  }

  void add_for_chunk(const Node& node, const Reader& reader) {
    Builder& b = copy_.builder();
    const std::vector<ValueId> inputs = inputs_for(node, reader);
    const std::string& name = graph_.values[node.outputs[0]].name;
    const std::vector<ValueId> results =
        reader_of(node).chunk == reader.chunk
            ? b.copy(graph_, node, inputs, node.attrs)
            : b.node(node.op->name, inputs, node.attrs, reader.unit + name.substr(name.rfind('/')));
    for (size_t o = 0; o < results.size(); ++o) of_chunks_[{node.outputs[o], reader.chunk}] = results[o];
  }

  ValueId had(ValueId value, const Reader& reader) {
    const int maker = graph_.values[value].node;
    if (maker < 0 || !of_states_[maker]) return copy_[value];
    const std::pair key(value, reader.chunk);
    if (!of_chunks_.contains(key)) add_for_chunk(graph_.nodes[maker], reader);
    return of_chunks_.at(key);
  }

  const Graph& graph_;
  const Cut& cut_;
  std::vector<bool> of_states_;
  GraphCopy copy_;
  std::map<std::pair<ValueId, int>, ValueId> of_chunks_;  // what is made of states, per chunk that reads it
};

}  // namespace

Graph with_own_casts(const Graph& forward, const Cut& cut, const OpTable& ops) {
  return Casts(forward, cut, ops).run();
}

}  // namespace trireme

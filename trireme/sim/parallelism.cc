// See parallelism.h. Depths follow from the index rules, which say what each result is put together from.
#include "trireme/sim/parallelism.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "trireme/ir/scope.h"
#include "trireme/sim/op_time.h"

namespace trireme::sim {
namespace {

bool has_index(const IndexRule::Operand& operand, int index) {
  return IndexRule::dim_of(operand, index) >= 0;
}

// The index that runs over the results of a window where `index` runs over its operands, or the other way
// round: y and y' of a convolution. −1: none.
int window_partner(const IndexRule& rule, int index) {
  const std::string& name = rule.indices[static_cast<size_t>(index)].name;
  const std::string partner = name.ends_with('\'') ? name.substr(0, name.size() - 1) : name + '\'';
  const auto found = std::ranges::find(rule.indices, partner, &Index::name);
  return found == rule.indices.end() ? -1 : static_cast<int>(found - rule.indices.begin());
}

// How many values one element of a result is put together from.
double terms_of(const IndexRule& rule, const IndexRule::Operand& result) {
  double terms = 1;
  for (int i = 0; i < std::ssize(rule.indices); ++i) {
    const int partner = window_partner(rule, i);
    if (has_index(result, i) || (partner >= 0 && has_index(result, partner))) continue;
    if (partner >= 0 && !rule.indices[static_cast<size_t>(i)].name.ends_with('\''))
      continue;  // a pair counts once
    terms *= static_cast<double>(std::max<int64_t>(1, rule.indices[static_cast<size_t>(i)].extent));
  }
  return terms;
}

// Of a rule by which each result keeps all indices, but sees others along those that are whole (softmax).
double whole_extents(const IndexRule& rule) {
  double extents = 1;
  for (int i = 0; i < std::ssize(rule.indices); ++i) {
    const Index& index = rule.indices[static_cast<size_t>(i)];
    if (index.split == Index::Split::kWhole && window_partner(rule, i) < 0)
      extents *= static_cast<double>(std::max<int64_t>(1, index.extent));
  }
  return extents;
}

using Visit = std::function<void(const Graph&, const Node&, StepPart)>;
void visit_nodes(std::span<const StepSegment> segments, const Visit& visit) {
  for (const StepSegment& segment : segments) {
    if (segment.kind == SegmentKind::kEvaluate) continue;
    for (const Node& node : segment.graph.nodes) {
      if (!node.op->collective) visit(segment.graph, node, part_of(segment.graph, node, segment.kind));
    }
  }
}

// By part the longest path through nodes of that part alone.
std::map<StepPart, double> longest_paths(std::span<const StepSegment> segments) {
  std::map<StepPart, double> longest;
  for (const StepSegment& segment : segments) {
    if (segment.kind == SegmentKind::kEvaluate) continue;
    const Graph& graph = segment.graph;
    std::map<StepPart, std::vector<double>> ends;  // by value: the depth at which it is there
    for (const Node& node : graph.nodes) {
      const StepPart part = part_of(graph, node, segment.kind);
      std::vector<double>& at = ends.try_emplace(part, graph.values.size(), 0.0).first->second;
      double begin = 0;
      for (const ValueId input : node.inputs) begin = std::max(begin, at[static_cast<size_t>(input)]);
      const double end = begin + (node.op->collective ? 0 : depth_of(graph, node));
      for (const ValueId output : node.outputs) at[static_cast<size_t>(output)] = end;
      longest[part] = std::max(longest[part], end);
    }
  }
  return longest;
}

std::vector<Parallelism> sorted_rows(std::map<std::pair<StepPart, std::string>, Parallelism> rows) {
  std::vector<Parallelism> result;
  for (auto& [key, row] : rows) result.push_back(std::move(row));
  std::ranges::stable_sort(result, [](const Parallelism& a, const Parallelism& b) {
    if (a.part != b.part) return a.part < b.part;
    if (a.op.empty() != b.op.empty()) return a.op.empty();
    return std::pair(a.cost.flops, a.cost.bytes) > std::pair(b.cost.flops, b.cost.bytes);
  });
  return result;
}

}  // namespace

std::string_view name(StepPart part) {
  switch (part) {
    case StepPart::kForward:
      return "forward";
    case StepPart::kBackward:
      return "backward";
    case StepPart::kUpdate:
      return "update";
  }
  return "";
}

std::string_view name(Placement::Limit limit) {
  switch (limit) {
    case Placement::Limit::kCompute:
      return "compute";
    case Placement::Limit::kMemory:
      return "memory";
    case Placement::Limit::kLaunch:
      return "launch";
  }
  return "";
}

StepPart part_of(const Graph& graph, const Node& node, SegmentKind kind) {
  if (kind == SegmentKind::kUpdate) return StepPart::kUpdate;
  const std::string_view scope = scope_of(graph, node);
  return has_part(scope, kGradientPart) || has_part(scope, kAgainPart) ? StepPart::kBackward
                                                                       : StepPart::kForward;
}

double depth_of(const Graph& graph, const Node& node) {
  if (node.op->memory == OpRecord::Memory::kShared) return 0;
  if (cost_of(graph, node).flops == 0) return 1;  // it moves elements, and puts nothing together
  std::vector<TensorType> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(graph.type(input));
  const IndexRule rule = node.op->index({node.op->name, inputs, node.attrs});
  double terms = 1;
  for (const IndexRule::Operand& result : rule.outputs) terms = std::max(terms, terms_of(rule, result));
  if (terms == 1) terms = whole_extents(rule);
  // Indices of several inputs that each run alone (total_squares) do not multiply.
  double elements = 0;
  for (const TensorType& input : inputs) elements += static_cast<double>(input.shape.elements());
  terms = std::min(terms, elements);
  return std::max(1.0, std::log2(terms));
}

std::vector<Parallelism> parallelism_of(std::span<const StepSegment> segments) {
  std::map<std::pair<StepPart, std::string>, Parallelism> rows;
  visit_nodes(segments, [&](const Graph& graph, const Node& node, StepPart part) {
    const Cost cost = cost_of(graph, node);
    for (const std::string& op : {std::string(), std::string(node.op->name)}) {
      Parallelism& row = rows[{part, op}];
      row.part = part;
      row.op = op;
      row.nodes += 1;
      row.cost.flops += cost.flops;
      row.cost.bytes += cost.bytes;
      if (!op.empty()) row.depth += depth_of(graph, node);
    }
  });
  for (const auto& [part, depth] : longest_paths(segments)) {
    if (const auto row = rows.find({part, ""}); row != rows.end()) row->second.depth = depth;
  }
  return sorted_rows(std::move(rows));
}

std::vector<Placement> placements_of(std::span<const StepSegment> segments, const DeviceClass& device) {
  struct Sums {
    double seconds = 0, computing = 0, moving = 0, launching = 0;
  };
  std::map<std::pair<StepPart, std::string>, Sums> sums;
  visit_nodes(segments, [&](const Graph& graph, const Node& node, StepPart part) {
    const NodeTime time = node_time(graph, node, device);
    for (const std::string& op : {std::string(), std::string(node.op->name)}) {
      Sums& sum = sums[{part, op}];
      sum.seconds += time.seconds;
      // The shorter of the two is hidden behind the longer.
      (time.computing_seconds > time.moving_seconds ? sum.computing : sum.moving) +=
          std::max(time.computing_seconds, time.moving_seconds);
      sum.launching += time.launch_seconds;
    }
  });
  std::vector<Placement> result;
  for (const Parallelism& row : parallelism_of(segments)) {
    const Sums& sum = sums.at({row.part, row.op});
    Placement placement{.seconds = sum.seconds, .limit = Placement::Limit::kCompute};
    if (sum.moving >= sum.computing) placement.limit = Placement::Limit::kMemory;
    if (sum.launching > std::max(sum.moving, sum.computing)) placement.limit = Placement::Limit::kLaunch;
    result.push_back(placement);
  }
  return result;
}

Loads loads_of(std::span<const Program> programs) {
  Loads loads;
  for (const Program& program : programs) {
    std::map<std::pair<StepPart, std::string>, double> own;
    for (const Segment& segment : program.segments) {
      const int64_t runs =
          std::ranges::count(program.list(When::step()).actions, segment.graph.name, &Action::what);
      for (const Node& node : segment.graph.nodes) {
        if (node.op->collective || runs == 0) continue;
        const StepPart part = part_of(segment.graph, node, segment.kind);
        const double flops = static_cast<double>(runs) * cost_of(segment.graph, node).flops;
        own[{part, std::string(node.op->name)}] += flops;
        own[{part, ""}] += flops;
      }
    }
    for (const auto& [key, flops] : own) {
      Load& load = loads[key];
      load.sum += flops;
      load.most = std::max(load.most, flops);
    }
  }
  for (auto& [key, load] : loads) load.ranks = static_cast<int>(programs.size());
  return loads;
}

}  // namespace trireme::sim

// Candidates first: each node begins with every index that may be cut, in units of 1. What a way makes of a
// node's operands suggests cuts to the nodes on their other side (units of heads, blocks of q, k and v), to a
// fixed point. Then the problem: a node of it for each node of the graph and each parameter, an edge for each
// value between two of them.
#include "trireme/planner/axis_layouts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/mesh/change.h"
#include "trireme/mesh/way.h"
#include "trireme/passes/spread.h"
#include "trireme/planner/intra.h"
#include "trireme/sim/op_time.h"

namespace trireme::planner {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();
// Of a node, or a parameter. More would come only from reshapes of reshapes.
constexpr size_t kMostWays = 12;
// Of a parameter that is updated, for each of its bytes: it, its gradient and two moments are read and
// written.
constexpr double kUpdateTraffic = 7;

// One way of a node: how its operands lie along the axis.
struct NodeWay {
  std::vector<Placement> inputs, outputs;
  double ranks_at_work = 1;
  friend bool operator==(const NodeWay& a, const NodeWay& b) {
    return a.inputs == b.inputs && a.outputs == b.outputs;
  }
};

class Maker {
 public:
  Maker(const Graph& graph, const AxisQuestion& question, const DeviceClass& device,
        sim::CollectiveTimes& times, int group_class)
      : graph_(graph),
        question_(question),
        device_(device),
        times_(times),
        group_class_(group_class),
        mesh_({{"tensor", question.ranks}}) {}

  const IntraProblem& problem() {
    for (const Node& node : graph_.nodes) rules_.push_back(rule_of(graph_, node));
    find_ways();
    find_parameters();
    add_nodes();
    add_values();
    add_ends();
    return problem_;
  }

  AxisLayouts run() {
    const std::optional<IntraSolution> found = solve(problem(), {.most_steps = 2'000'000});
    TRIREME_CHECK(found.has_value());  // doing everything everywhere is a solution
    return layouts_of_solution(*found);
  }

 private:
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  Placement normal(const Placement& placement, ValueId value) const {
    return normal_form({placement}, shape(value), mesh_)[0];
  }

  // --- candidates ---

  void find_ways() {
    ways_.resize(graph_.nodes.size());
    suggested_.resize(graph_.values.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const Way& way : ways_to_split(rules_[n], mesh_)) add_way(n, way[0]);
      const Node& node = graph_.nodes[n];
      if (node.op->linear && node.op->linear({node.op->name, graph_.types_of(node.inputs), node.attrs})) {
        ways_[n].push_back({std::vector(node.inputs.size(), Placement::sum()),
                            std::vector(node.outputs.size(), Placement::sum())});
      }
    }
    // Both directions, until nothing new is said.
    while (std::exchange(changed_, false)) {
      for (size_t n = 0; n < graph_.nodes.size(); ++n) follow(n);
      for (size_t n = graph_.nodes.size(); n-- > 0;) follow(n);
    }
  }

  void follow(size_t n) {
    const Node& node = graph_.nodes[n];
    const auto take = [&](ValueId value, const IndexRule::Operand& operand) {
      const std::vector<Placement> suggested = suggested_[value];  // adding may suggest more
      for (const Placement& placement : suggested) {
        if (const auto cut = cut_from(rules_[n], operand, placement, question_.ranks)) add_way(n, *cut);
      }
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) take(node.inputs[i], rules_[n].inputs[i]);
    for (size_t o = 0; o < node.outputs.size(); ++o) take(node.outputs[o], rules_[n].outputs[o]);
  }

  void add_way(size_t n, const IndexCut& cut) {
    const Node& node = graph_.nodes[n];
    if (ways_[n].size() >= kMostWays || !is_legal(rules_[n], {cut}, mesh_)) return;
    if (cut.blocks > 1 && !takes_pieces(*node.op)) return;
    const OperandLayouts layouts = trireme::layouts_of(rules_[n], {cut}, mesh_);
    NodeWay way{.ranks_at_work = cut.index < 0 ? 1.0 : question_.ranks};
    for (size_t i = 0; i < node.inputs.size(); ++i)
      way.inputs.push_back(normal(layouts.inputs[i][0], node.inputs[i]));
    for (size_t o = 0; o < node.outputs.size(); ++o)
      way.outputs.push_back(normal(layouts.outputs[o][0], node.outputs[o]));
    if (std::ranges::find(ways_[n], way) != ways_[n].end()) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) suggest(node.inputs[i], way.inputs[i]);
    for (size_t o = 0; o < node.outputs.size(); ++o) suggest(node.outputs[o], way.outputs[o]);
    ways_[n].push_back(std::move(way));
    changed_ = true;
  }

  void suggest(ValueId value, const Placement& placement) {
    std::vector<Placement>& known = suggested_[value];
    if (placement.kind != Placement::Kind::kSplit || std::ranges::find(known, placement) != known.end())
      return;
    known.push_back(placement);
  }

  // --- the problem ---

  // A parameter lies as its readers may want it, or whole.
  void find_parameters() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].role != Role::kParameter) continue;
      Parameter& parameter = parameters_[static_cast<ValueId>(v)];
      parameter.node = static_cast<int>(graph_.nodes.size() + parameters_.size()) - 1;
      parameter.placements = {Placement()};
      for (const Placement& placement : suggested_[v]) {
        if (parameter.placements.size() < kMostWays) parameter.placements.push_back(placement);
      }
      by_name_[graph_.values[v].name] = static_cast<ValueId>(v);
    }
  }

  double share(const Placement& placement) const {
    return placement.kind == Placement::Kind::kSplit ? 1.0 / question_.ranks : 1;
  }

  double seconds_of(const Node& node, const NodeWay& way) const {
    double whole = 0, local = 0;
    const auto count = [&](ValueId value, const Placement& placement) {
      const double bytes = static_cast<double>(graph_.type(value).bytes());
      whole += bytes;
      local += bytes * share(placement);
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) count(node.inputs[i], way.inputs[i]);
    for (size_t o = 0; o < node.outputs.size(); ++o) count(node.outputs[o], way.outputs[o]);
    return sim::part_seconds(graph_, node, device_, 1 / way.ranks_at_work, whole > 0 ? local / whole : 1);
  }

  void add_nodes() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      IntraProblem::Node& node = problem_.nodes.emplace_back();
      for (const NodeWay& way : ways_[n]) node.cost.push_back(seconds_of(graph_.nodes[n], way));
    }
    for (const auto& [value, parameter] : parameters_) {
      IntraProblem::Node& node = problem_.nodes.emplace_back();
      const double bytes = kUpdateTraffic * static_cast<double>(graph_.type(value).bytes());
      for (const Placement& placement : parameter.placements)
        node.cost.push_back(share(placement) * bytes / device_.bytes_per_second(bytes) /
                            question_.microbatches);
    }
  }

  // What it takes until a value that lies so lies otherwise.
  double seconds_between(ValueId value, const Placement& from, const Placement& to) {
    if (from == to) return 0;
    const auto path = changes({from}, {to}, shape(value), mesh_);
    if (!path) return kImpossible;
    double seconds = 0;
    for (const Change& change : *path) {
      const std::optional<CollectiveKind> kind = trireme::collective_of(change.kind);
      if (!kind) continue;
      const double bytes = static_cast<double>(graph_.type(value).bytes());
      seconds += times_.seconds(group_class_, *kind,
                                *kind == CollectiveKind::kAllToAll ? bytes / question_.ranks : bytes);
    }
    return seconds;
  }

  // How a value that no node makes is there.
  Placement given(ValueId value) const {
    const bool rows =
        graph_.values[value].role == Role::kBatch && question_.rows == AxisQuestion::Rows::kShared;
    return rows ? Placement::split(0) : Placement();
  }

  void add_values() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) add_reading(n, i);
    }
  }

  void add_reading(size_t n, size_t i) {
    const ValueId value = graph_.nodes[n].inputs[i];
    const int maker = graph_.values[value].node;
    const auto parameter = parameters_.find(value);
    if (maker < 0 && parameter == parameters_.end()) {
      for (size_t k = 0; k < ways_[n].size(); ++k)
        problem_.nodes[n].cost[k] += seconds_between(value, given(value), ways_[n][k].inputs[i]);
      return;
    }
    IntraProblem::Edge edge{.from = maker, .to = static_cast<int>(n), .cost = {}};
    if (maker < 0) {
      edge.from = parameter->second.node;
      // Weights stay where they are; a rank may use a part of what it has.
      for (const Placement& placement : parameter->second.placements) {
        for (const NodeWay& way : ways_[n]) {
          const bool there = placement == way.inputs[i] || placement.kind == Placement::Kind::kReplicated;
          edge.cost.push_back(there ? 0 : kImpossible);
        }
      }
    } else {
      const Node& made = graph_.nodes[maker];
      const size_t o = std::ranges::find(made.outputs, value) - made.outputs.begin();
      for (const NodeWay& from : ways_[maker]) {
        for (const NodeWay& to : ways_[n])
          edge.cost.push_back(seconds_between(value, from.outputs[o], to.inputs[i]));
      }
    }
    problem_.edges.push_back(std::move(edge));
  }

  // A result that leaves the graph, of a node's ways.
  template <typename Add>
  void each_way_out(ValueId value, const Add& add) {
    const int maker = graph_.values[value].node;
    if (maker < 0) return;
    const Node& made = graph_.nodes[maker];
    const size_t o = std::ranges::find(made.outputs, value) - made.outputs.begin();
    for (size_t k = 0; k < ways_[maker].size(); ++k) add(maker, k, ways_[maker][k].outputs[o]);
  }

  // Gradients come to lie as their parameters do; other states stay whole, and so does what is shown.
  void add_ends() {
    const bool once = question_.rows == AxisQuestion::Rows::kShared;
    const double times_a_microbatch = once ? 1 / question_.microbatches : 1;
    for (const Update& update : graph_.updates) {
      const Value& state = graph_.values[update.state];
      const auto of = by_name_.find(state.attrs.text("of", ""));
      if (state.role != Role::kGradient || of == by_name_.end()) {
        add_whole(update.value);
        continue;
      }
      const Parameter& parameter = parameters_.at(of->second);
      IntraProblem::Edge edge{.from = graph_.values[update.value].node, .to = parameter.node, .cost = {}};
      each_way_out(update.value, [&](int, size_t, const Placement& made) {
        for (const Placement& wanted : parameter.placements)
          edge.cost.push_back(times_a_microbatch * seconds_between(update.value, made, wanted));
      });
      if (edge.from >= 0) problem_.edges.push_back(std::move(edge));
    }
    for (const Output& output : graph_.outputs) {
      if (output.role == OutputRole::kWhole) add_whole(output.value);
    }
  }
  // What is still to be added up is so once a step, and small.
  void add_whole(ValueId value) {
    each_way_out(value, [&](int maker, size_t way, const Placement& made) {
      if (made.kind != Placement::Kind::kSum)
        problem_.nodes[maker].cost[way] += seconds_between(value, made, Placement());
    });
  }

  AxisLayouts layouts_of_solution(const IntraSolution& found) const {
    AxisLayouts result{.seconds = found.cost, .least_seconds = found.least_cost};
    for (const auto& [value, parameter] : parameters_)
      result.parameters.emplace_back(graph_.values[value].name,
                                     parameter.placements[found.way[parameter.node]]);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const NodeWay& way = ways_[n][found.way[n]];
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const Shape& out = shape(node.outputs[o]);
        if (way.outputs[o].kind == Placement::Kind::kSplit && out.rank() == 3 && way.outputs[o].dim == 1)
          result.sequence = AxisLayouts::Sequence::kSplit;
      }
    }
    return result;
  }

  struct Parameter {
    int node = 0;  // of the problem
    std::vector<Placement> placements;
  };

  const Graph& graph_;
  const AxisQuestion& question_;
  const DeviceClass& device_;
  sim::CollectiveTimes& times_;
  const int group_class_;
  const Mesh mesh_;
  std::vector<IndexRule> rules_;                   // by node
  std::vector<std::vector<NodeWay>> ways_;         // by node
  std::vector<std::vector<Placement>> suggested_;  // by value: splits that ways of its nodes have
  bool changed_ = true;
  std::map<ValueId, Parameter> parameters_;
  std::map<std::string, ValueId, std::less<>> by_name_;
  IntraProblem problem_;
};

}  // namespace

IntraProblem axis_problem(const Graph& graph, const AxisQuestion& question, const DeviceClass& device,
                          sim::CollectiveTimes& times, int group_class) {
  return Maker(graph, question, device, times, group_class).problem();
}

AxisLayouts best_layouts(const Graph& graph, const AxisQuestion& question, const DeviceClass& device,
                         sim::CollectiveTimes& times, int group_class) {
  return Maker(graph, question, device, times, group_class).run();
}

}  // namespace trireme::planner

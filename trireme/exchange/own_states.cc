// See own_states.h.
#include "trireme/exchange/own_states.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/method.h"
#include "trireme/exchange/packed.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/schedule/schedule.h"

namespace trireme {

OwnStates::OwnStates(const Mesh& mesh, int rank) : mesh_(mesh), axis_(mesh.find(kReplicaAxis)) {
  ranks_ = mesh.axes()[axis_].size;
  rank_ = mesh.coordinate(rank, axis_);
}

ValueId OwnStates::keep(Builder& b, std::string_view what, const Value& of, Of whose) {
  return keep_named(b, fmt::format("{}{}.{}", kKeptPrefix, what, of.name), of.type.shape, whose, "zeros");
}
ValueId OwnStates::keep(Builder& b, std::string_view what, Of whose, const char* start) {
  return keep_named(b, fmt::format("{}{}", kKeptPrefix, what), Shape{}, whose, start);
}

ValueId OwnStates::keep_named(Builder& b, const std::string& name, const Shape& shape, Of whose,
                              const char* start) {
  if (const ValueId known = b.graph().find(name); known != kNoValue) return known;
  Shape one{1};
  for (const int64_t extent : shape) one.push_back(extent);
  KeptState state{one, replicated(mesh_)};
  if (whose == Of::kRank) {
    state.layout[axis_] = Placement::split(0);
    state.whole.set(0, ranks_);
  }
  kept_[name] = state;
  return b.state(name, {DType::f32, one}, Role::kResidual, {{"init", start}});
}

namespace {

// Whether nothing is made of a value but what a buffer becomes.
bool renews_a_buffer(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes) {
    if (std::ranges::find(node.inputs, value) != node.inputs.end()) return false;
  }
  for (const Output& output : graph.outputs) {
    if (output.value == value) return false;
  }
  return std::ranges::all_of(graph.updates, [&](const Update& update) {
    return update.value != value || graph.values[update.state].role == Role::kPending;
  });
}

bool is_sum_over_ranks(const Node& node) {
  return node.op->collective && node.attrs.text("axis", "") == kReplicaAxis;
}

}  // namespace

void refuse_joint(std::string_view value) {
  throw_error(
      "the plan has an exchange by which ranks compute by themselves, but {} is put together over all of "
      "them in every step. Use another exchange, or take away what the plan says of layouts",
      value);
}

Graph without_sums(const Graph& graph, LeftOut which, const OpTable& ops) {
  GraphCopy copy(graph, ops, graph.name);
  copy.declare_all();
  for (const Node& node : graph.nodes) {
    if (is_sum_over_ranks(node) && (which == LeftOut::kAllSums || renews_a_buffer(graph, node.outputs[0]))) {
      if (node.op->collective->kind != CollectiveKind::kAllReduce)
        refuse_joint(graph.values[node.outputs[0]].name);  // a layout splits it over the ranks
      copy.set(node.outputs[0], copy[node.inputs[0]]);
    } else {
      copy.add(node);
    }
  }
  copy.finish();
  return copy.take();
}

ValueId in_row(Builder& b, ValueId value) {
  std::vector<int64_t> shape = {1};
  for (const int64_t extent : b.shape(value)) shape.push_back(extent);
  return reshaped(b, value, shape);
}
ValueId out_of_row(Builder& b, ValueId value) {
  const Shape& shape = b.shape(value);
  return reshaped(b, value, {shape.begin() + 1, shape.end()});
}

}  // namespace trireme

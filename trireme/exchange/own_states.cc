// See own_states.h.
#include "trireme/exchange/own_states.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/method.h"
#include "trireme/exchange/packed.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/schedule/schedule.h"

namespace trireme {

namespace {

Shape row_of(const Shape& shape) {
  Shape row{1};
  for (const int64_t extent : shape) row.push_back(extent);
  return row;
}

}  // namespace

OwnStates::OwnStates(const AgreeingRank& rank)
    : place_(rank), axis_(rank.mesh.axis(replica_axis(rank.mesh))) {
  replicas_ = replicas_of(rank.mesh);
  replica_ = replica_of(rank.mesh, rank.rank);
  TRIREME_CHECK(std::ssize(rank.members) == replicas_);
}

ValueId OwnStates::keep(Builder& b, std::string_view what, const Value& of, Of whose) {
  return keep_named(b, fmt::format("{}{}.{}", kKeptPrefix, what, of.name), of.type.shape, lying(of), whose,
                    "zeros");
}
ValueId OwnStates::keep(Builder& b, std::string_view what, Of whose, const char* start) {
  return keep_named(b, fmt::format("{}{}", kKeptPrefix, what), Shape{}, {{}, replicated(place_.mesh)}, whose,
                    start);
}

ValueId OwnStates::keep_named(Builder& b, const std::string& name, const Shape& shape,
                              const KeptState& together, Of whose, const char* start) {
  if (const ValueId known = b.graph().find(name); known != kNoValue) return known;
  KeptState state{row_of(together.whole), together.layout, together.of};
  for (Placement& placement : state.layout) {
    if (placement.kind == Placement::Kind::kSplit) ++placement.dim;
  }
  if (whose == Of::kReplica) {
    state.layout[axis_] = Placement::split(0);
    state.whole.set(0, replicas_);
  }
  kept_[name] = state;
  return b.state(name, {DType::f32, row_of(shape)}, Role::kResidual, {{"init", start}});
}

// In what order elements are added up depends on where they lie in what is sent, and ranks that have the same
// must find the same: what other stages have too, and parts of several sizes, are sent alone (bucket.h).
ValueId OwnStates::summed(Builder& b, ValueId value, const Value* of) const {
  Attrs attrs{{"axis", std::string(replica_axis(place_.mesh))},
              {"ways", replicas_},
              {"coordinate", replica_},
              {"reduction", "sum"}};
  if (of && is_shared(*of)) attrs.set("alone", int64_t{value});
  if (of && !is_even(*of)) attrs.set("uneven", int64_t{1});
  return b.op("all_reduce", {value}, attrs);
}

bool OwnStates::is_alike(const Value& state) const {
  const Layout& layout = lying(state).layout;
  for (size_t a = 0; a < layout.size(); ++a) {
    if (static_cast<int>(a) != axis_ && place_.mesh.axes()[a].size > 1 &&
        layout[a].kind == Placement::Kind::kReplicated)
      return true;
  }
  return false;
}

bool OwnStates::is_even(const Value& state) const {
  const KeptState& all = lying(state);
  return local_shape(all.whole, all.layout, place_.mesh, 0) ==
         local_shape(all.whole, all.layout, place_.mesh, place_.mesh.ranks() - 1);
}

namespace {

// Whether nothing is made of a value but what a buffer becomes, be it after it was added up over another
// axis.
bool renews_a_buffer(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes) {
    if (std::ranges::find(node.inputs, value) == node.inputs.end()) continue;
    if (!node.op->collective || !renews_a_buffer(graph, node.outputs[0])) return false;
  }
  for (const Output& output : graph.outputs) {
    if (output.value == value) return false;
  }
  return std::ranges::all_of(graph.updates, [&](const Update& update) {
    return update.value != value || graph.values[update.state].role == Role::kPending;
  });
}

}  // namespace

void refuse_joint(std::string_view value) {
  throw_error(
      "the plan has an exchange by which ranks compute by themselves, but {} is put together over all of "
      "them in every step. Use another exchange, or take away what the plan says of layouts",
      value);
}

Graph without_sums(const Graph& graph, std::string_view axis, LeftOut which, const OpTable& ops) {
  GraphCopy copy(graph, ops, graph.name);
  copy.declare_all();
  for (const Node& node : graph.nodes) {
    const bool over_axis = node.op->collective && node.attrs.text("axis", "") == axis;
    if (over_axis && (which == LeftOut::kAllSums || renews_a_buffer(graph, node.outputs[0]))) {
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

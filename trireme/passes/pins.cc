// Presets in terms of layouts.
#include "trireme/passes/pins.h"

#include "trireme/base/error.h"

namespace trireme {
namespace {

// −1 also for an axis of one rank, over which nothing is spread.
int spread_axis(const Mesh& mesh, std::string_view name) {
  const int found = mesh.find(name);
  return found >= 0 && mesh.axes()[found].size > 1 ? found : -1;
}

// Of activations of transformers, [batch, sequence, features].
constexpr int kBatchDim = 0, kSequenceDim = 1;

class Presets {
 public:
  Presets(const Plan& plan, SegmentKind kind, Microbatches microbatches)
      : plan_(plan),
        mesh_(plan.mesh),
        kind_(kind),
        data_(axis("data")),
        tensor_(plan.has("megatron") || plan.has("hybrid_cnn") ? axis("tensor") : -1),
        sequence_(plan.has("sequence") && tensor_ >= 0),
        batch_axes_(batch_axes(plan)),
        parameters_split_(plan.has("zero3")),
        gradients_split_(parameters_split_ || plan.has("zero2")),
        optimizer_split_(gradients_split_ || plan.has("zero1")),
        // ZeRO-1 keeps gradients whole and scatters them in the update.
        added_at_once_(microbatches == Microbatches::kOne && (gradients_split_ || !optimizer_split_)) {}

  Pins pins(const Graph& graph) const {
    Pins pins;
    for (const Value& value : graph.values) {
      const Layout* given = plan_.layout_of(value.name);
      if (value.kind == Value::Kind::kState) {
        pins.states[value.name] = state(value);
      } else if (given && value.kind == Value::Kind::kResult) {
        pins.values[value.name] = normal_form(*given, value.type.shape, mesh_);
      } else if (value.role == Role::kBatch) {
        pins.values[value.name] = along_batch(Placement::split(kBatchDim));
      }
    }
    if (kind_ != SegmentKind::kUpdate) pin_casts(graph, pins);
    if (tensor_ >= 0 && (sequence_ || plan_.has("hybrid_cnn"))) {
      pins.scatter_dims.assign(mesh_.axes().size(), -1);
      pins.scatter_dims[tensor_] = sequence_ ? kSequenceDim : kBatchDim;
    }
    // Each rank makes its addend, even where gathering what it is made of would move less: the computation is
    // to be shared too.
    for (const Update& update : graph.updates) {
      const Value& state = graph.values[update.state];
      if (kind_ != SegmentKind::kUpdate && added_at_once_ && state.role == Role::kGradient)
        pins.values[graph.values[update.value].name] = with_sums(state, in_use(state));
    }
    for (const Output& output : graph.outputs) {
      if (output.role == OutputRole::kAddend) pins.outputs[output.name] = along_batch(Placement::sum());
      if (output.role == OutputRole::kRows)
        pins.outputs[output.name] = along_batch(Placement::split(kBatchDim));
    }
    // The loss, from which the backward part starts.
    if (kind_ == SegmentKind::kForwardBackward && parameters_split_ && !graph.outputs.empty())
      pins.forward_end = graph.values[graph.outputs[0].value].name;
    return pins;
  }

 private:
  int axis(std::string_view name) const { return spread_axis(mesh_, name); }

  // What is made of a parameter alone, element by element, lies as the parameter would. Where nothing else
  // reads the parameter it need not be gathered itself, only what is made of it.
  void pin_casts(const Graph& graph, Pins& pins) const {
    std::vector<int> readers(graph.values.size()), casts(graph.values.size());
    for (const Node& node : graph.nodes) {
      for (ValueId input : node.inputs) ++readers[input];
      const Value &from = graph.values[node.inputs[0]], &to = graph.values[node.outputs[0]];
      if (from.role != Role::kParameter || node.inputs.size() != 1 || node.outputs.size() != 1 ||
          plan_.layout_of(to.name))
        continue;
      if (const IndexRule rule = rule_of(graph, node); rule.inputs[0] != rule.outputs[0]) continue;
      pins.states[to.name] = pins.states.at(from.name);
      ++casts[node.inputs[0]];
    }
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (casts[v] == 0 || casts[v] != readers[v]) continue;
      StateLayout& layout = pins.states.at(graph.values[v].name);
      layout.use = layout.rest;
    }
  }

  Layout along_batch(Placement placement) const {
    Layout layout = replicated(mesh_);
    for (int batch_axis : batch_axes_) layout[batch_axis] = placement;
    return layout;
  }

  StateLayout state(const Value& value) const {
    const Layout whole = in_use(value), part = by_zero(value, whole);
    const bool update = kind_ == SegmentKind::kUpdate;
    if (value.role == Role::kParameter) {
      // The update works on the part whose moments this rank has.
      return {parameters_split_ ? part : whole, update && optimizer_split_ ? part : whole};
    }
    if (value.role == Role::kOptimizer) return optimizer_split_ ? StateLayout{part, part} : StateLayout{whole, whole};
    if (value.role == Role::kGradient) {
      const Layout sum = with_sums(value, whole);
      const Layout rest = gradients_split_ && part != whole ? part : added_at_once_ ? whole : sum;
      return {rest, update ? (optimizer_split_ ? part : whole) : rest};
    }
    return {whole, whole};
  }

  // How gradients of what lies as `whole` are accumulated: each rank adds up what its rows give, or its part
  // of the sequence.
  Layout with_sums(const Value& value, Layout whole) const {
    for (int batch_axis : batch_axes_) {
      if (whole[batch_axis].kind == Placement::Kind::kReplicated) whole[batch_axis] = Placement::sum();
    }
    if (sequence_ && value.attrs.has("of") && whole[tensor_].kind == Placement::Kind::kReplicated)
      whole[tensor_] = Placement::sum();
    return whole;
  }

  // How a parameter and what goes with it lies when it is used: as the plan says of it by name, or as tensor
  // parallelism has it.
  Layout in_use(const Value& value) const {
    if (const Layout* given = plan_.layout_of(value.attrs.text("of", value.name))) {
      check_layout(*given, value.type.shape, mesh_, value.name);
      return normal_form(*given, value.type.shape, mesh_);
    }
    Layout layout = replicated(mesh_);
    if (tensor_ < 0) return layout;
    if (sequence_ && value.attrs.has("tensor_sequence_dim")) {
      layout[tensor_] = Placement::split(static_cast<int>(value.attrs.integer("tensor_sequence_dim")));
    } else if (value.attrs.has("tensor_dim")) {
      layout[tensor_] =
          Placement::split(static_cast<int>(value.attrs.integer("tensor_dim")),
                           value.attrs.integer("tensor_unit", 1), value.attrs.integer("tensor_blocks", 1));
    } else {
      return layout;
    }
    check_parts(value, layout[tensor_], mesh_.axes()[tensor_].size);
    return normal_form(layout, value.type.shape, mesh_);
  }

  static void check_parts(const Value& value, const Placement& split, int ways) {
    const int64_t units = value.type.shape[split.dim] / split.unit / split.blocks;
    if (units >= ways) return;
    throw_error(
        "{} {} has {} parts (heads, features or rows) that can be told apart along dim {}; {} ranks of the "
        "axis tensor are too many for it",
        value.name, to_string(value.type.shape), units, split.dim, ways);
  }

  // Whether another axis than data splits a dim.
  bool is_cut(const Layout& layout, int dim) const {
    for (size_t a = 0; a < layout.size(); ++a) {
      if (static_cast<int>(a) != data_ && layout[a].kind == Placement::Kind::kSplit && layout[a].dim == dim)
        return true;
    }
    return false;
  }

  Layout with_data(Layout layout, int dim) const {
    layout[data_] = Placement::split(dim);
    return layout;
  }

  // Whether each rank gets something, and the same number of elements, when a dim is also split over data.
  bool divides(const Shape& shape, const Layout& whole, int dim) const {
    const Layout layout = with_data(whole, dim);
    if (!layout_problem(layout, shape, mesh_).empty()) return false;
    // The first rank has the largest part of everything, the last the smallest.
    const int64_t smallest = local_shape(shape, layout, mesh_, mesh_.ranks() - 1)[dim];
    return smallest > 0 && local_shape(shape, layout, mesh_, 0)[dim] == smallest;
  }

  // How ZeRO splits what lies as `whole`: along the first dim that no other axis cuts and that divides
  // evenly; else along one that is cut, if that still divides; else along the largest that gives each rank
  // something; else not at all.
  Layout by_zero(const Value& value, const Layout& whole) const {
    if (data_ < 0 || whole[data_].kind != Placement::Kind::kReplicated) return whole;
    const Shape& shape = value.type.shape;
    int best = -1;
    for (const bool cut : {false, true}) {
      for (int d = 0; d < shape.rank() && best < 0; ++d) {
        if (is_cut(whole, d) == cut && divides(shape, whole, d)) best = d;
      }
    }
    if (best < 0) {
      for (int d = 0; d < shape.rank(); ++d) {
        const bool possible = !is_cut(whole, d) && shape[d] >= mesh_.axes()[data_].size;
        if (possible && (best < 0 || shape[d] > shape[best])) best = d;
      }
    }
    return best < 0 ? whole : normal_form(with_data(whole, best), shape, mesh_);
  }

  const Plan& plan_;
  const Mesh& mesh_;
  SegmentKind kind_;
  int data_, tensor_;  // axes; −1 where there is none
  bool sequence_;
  std::vector<int> batch_axes_;
  bool parameters_split_, gradients_split_, optimizer_split_;
  bool added_at_once_;  // gradients over the ranks, as they are made
};

}  // namespace

std::vector<int> batch_axes(const Plan& plan) {
  std::vector<int> axes;
  if (const int data = spread_axis(plan.mesh, "data"); data >= 0) axes.push_back(data);
  if (const int tensor = spread_axis(plan.mesh, "tensor"); tensor >= 0 && plan.has("hybrid_cnn"))
    axes.push_back(tensor);
  return axes;
}

int64_t batch_parts(const Plan& plan) {
  int64_t parts = 1;
  for (const int axis : batch_axes(plan)) parts *= plan.mesh.axes()[axis].size;
  return parts;
}

Part batch_rows(const Plan& plan, int64_t rows, int rank) {
  Layout layout = replicated(plan.mesh);
  int64_t ways = 1;
  for (int axis : batch_axes(plan)) {
    layout[axis] = Placement::split(kBatchDim);
    ways *= plan.mesh.axes()[axis].size;
  }
  if (rows < ways) {
    throw_error(
        "a microbatch of {} rows can not be shared by {} ranks; a larger train.batch, fewer microbatches "
        "(train.accumulate) or fewer ranks are needed",
        rows, ways);
  }
  check_layout(layout, {rows}, plan.mesh, "the rows of a microbatch");
  return local_pieces({rows}, layout, plan.mesh, rank)[0][0];
}

Pins pins_of(const Plan& plan, const Graph& graph, SegmentKind kind, Microbatches microbatches) {
  return Presets(plan, kind, microbatches).pins(graph);
}

}  // namespace trireme

// Presets in terms of layouts.
#include "trireme/passes/pins.h"

#include "trireme/base/error.h"

namespace trireme {
namespace {

class Presets {
 public:
  Presets(const Plan& plan, SegmentKind kind, Microbatches microbatches)
      : mesh_(plan.mesh),
        kind_(kind),
        microbatches_(microbatches),
        data_(axis("data")),
        tensor_(plan.has("megatron") ? axis("tensor") : -1),
        parameters_split_(plan.has("zero3")),
        gradients_split_(parameters_split_ || plan.has("zero2")),
        optimizer_split_(gradients_split_ || plan.has("zero1")) {}

  Pins pins(const Graph& graph) const {
    Pins pins;
    for (const Value& value : graph.values) {
      if (value.kind == Value::Kind::kInput && value.type.shape.rank() > 0 && value.name != "rng")
        pins.values[value.name] = along_data(Placement::split(0));
      if (value.kind == Value::Kind::kState) pins.states[value.name] = state(value);
    }
    if (kind_ == SegmentKind::kForwardBackward) {
      // Only the update adds them up, once a step.
      pins.outputs["loss"] = pins.outputs["count"] = along_data(Placement::sum());
      if (parameters_split_ && !graph.outputs.empty())
        pins.forward_end = graph.values[graph.outputs[0].value].name;
    }
    if (kind_ == SegmentKind::kEvaluate) pins.outputs["logits"] = along_data(Placement::split(0));
    return pins;
  }

 private:
  // −1 also for an axis of one rank, over which nothing is spread.
  int axis(std::string_view name) const {
    const int found = mesh_.find(name);
    return found >= 0 && mesh_.axes()[found].size > 1 ? found : -1;
  }

  Layout along_data(Placement placement) const {
    Layout layout = replicated(mesh_);
    if (data_ >= 0) layout[data_] = placement;
    return layout;
  }

  StateLayout state(const Value& value) const {
    const Layout whole = by_tensor(value), part = by_zero(value, whole);
    const std::string_view role = value.attrs.text("role", "");
    const bool update = kind_ == SegmentKind::kUpdate;
    if (role == "parameter") {
      // The update works on the part whose moments this rank has.
      return {parameters_split_ ? part : whole, update && optimizer_split_ ? part : whole};
    }
    if (role == "optimizer") return optimizer_split_ ? StateLayout{part, part} : StateLayout{whole, whole};
    if (role == "gradient") {
      Layout sum = whole;
      if (data_ >= 0) sum[data_] = Placement::sum();
      // ZeRO-1 keeps them whole and scatters them in the update.
      const bool added_at_once =
          microbatches_ == Microbatches::kOne && (gradients_split_ || !optimizer_split_);
      const Layout rest = gradients_split_ && part != whole ? part : added_at_once ? whole : sum;
      return {rest, update ? (optimizer_split_ ? part : whole) : rest};
    }
    return {whole, whole};
  }

  // How tensor parallelism has a parameter and what goes with it.
  Layout by_tensor(const Value& value) const {
    Layout layout = replicated(mesh_);
    if (tensor_ < 0 || !value.attrs.has("tensor_dim")) return layout;
    const Placement split =
        Placement::split(static_cast<int>(value.attrs.integer("tensor_dim")),
                         value.attrs.integer("tensor_unit", 1), value.attrs.integer("tensor_blocks", 1));
    const int64_t units = value.type.shape[split.dim] / split.unit / split.blocks;
    const int ways = mesh_.axes()[tensor_].size;
    if (units < ways) {
      throw_error(
          "{} has {} parts (heads or features) that can be told apart along dim {}; {} ranks of the axis "
          "tensor "
          "are too many for it",
          value.name, units, split.dim, ways);
    }
    layout[tensor_] = split;
    return normal_form(layout, value.type.shape, mesh_);
  }

  // How ZeRO splits what lies as `whole`: along the first dim that tensor parallelism leaves alone and that
  // divides evenly; else along the one that it has cut, if that still divides; else along the largest that
  // gives each rank something; else not at all.
  Layout by_zero(const Value& value, const Layout& whole) const {
    if (data_ < 0) return whole;
    const Shape& shape = value.type.shape;
    const int64_t ways = mesh_.axes()[data_].size;
    const Placement tensor = tensor_ >= 0 ? whole[tensor_] : Placement();
    int best = -1;
    for (int d = 0; d < shape.rank() && best < 0; ++d) {
      if (d != tensor.dim && shape[d] >= ways && shape[d] % ways == 0) best = d;
    }
    if (best < 0 && tensor.kind == Placement::Kind::kSplit) {
      const int64_t tensor_ways = mesh_.axes()[tensor_].size,
                    units = shape[tensor.dim] / tensor.unit / tensor.blocks;
      if (units % tensor_ways == 0 && shape[tensor.dim] / tensor_ways % ways == 0) best = tensor.dim;
    }
    if (best < 0) {
      for (int d = 0; d < shape.rank(); ++d) {
        if (d != tensor.dim && shape[d] >= ways && (best < 0 || shape[d] > shape[best])) best = d;
      }
    }
    if (best < 0) return whole;
    Layout part = whole;
    part[data_] = Placement::split(best);
    return normal_form(part, shape, mesh_);
  }

  const Mesh& mesh_;
  SegmentKind kind_;
  Microbatches microbatches_;
  int data_, tensor_;  // axes; −1 where there is none
  bool parameters_split_, gradients_split_, optimizer_split_;
};

}  // namespace

Pins pins_of(const Plan& plan, const Graph& graph, SegmentKind kind, Microbatches microbatches) {
  return Presets(plan, kind, microbatches).pins(graph);
}

}  // namespace trireme

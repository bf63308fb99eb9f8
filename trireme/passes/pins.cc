// Presets in terms of layouts.
#include "trireme/passes/pins.h"

#include "trireme/base/error.h"

namespace trireme {
namespace {

// The dim that ZeRO splits: the first that divides evenly, or else the largest that gives each rank
// something; −1 when there is none, and the tensor stays whole.
int zero_dim(const Shape& shape, int ways) {
  int best = -1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] >= ways && shape[d] % ways == 0) return d;
    if (shape[d] >= ways && (best < 0 || shape[d] > shape[best])) best = d;
  }
  return best;
}

struct Levels {
  bool optimizer, gradients, parameters;  // what is split
};
Levels levels_of(const std::string& preset) {
  const int zero = preset == "zero1" ? 1 : preset == "zero2" ? 2 : preset == "zero3" ? 3 : 0;
  return {zero >= 1, zero >= 2, zero >= 3};
}

}  // namespace

Pins pins_of(const Plan& plan, const Graph& graph, SegmentKind kind) {
  Pins pins;
  const Mesh& mesh = plan.mesh;
  const int data = mesh.find("data");
  if (data < 0 || mesh.axes()[data].size == 1) return pins;
  const Levels levels = levels_of(plan.preset);
  const auto along_data = [&](Placement placement) {
    Layout layout = replicated(mesh);
    layout[data] = placement;
    return layout;
  };
  for (const Value& value : graph.values) {
    const Shape& shape = value.type.shape;
    if (value.kind == Value::Kind::kInput && shape.rank() > 0 && value.name != "rng")
      pins.values[value.name] = along_data(Placement::split(0));
    if (value.kind != Value::Kind::kState) continue;
    const int dim = zero_dim(shape, mesh.axes()[data].size);
    const Layout whole = replicated(mesh);
    const Layout part = dim < 0 ? whole : along_data(Placement::split(dim));
    const std::string_view role = value.attrs.text("role", "");
    if (role == "parameter") {
      const Layout rest = levels.parameters ? part : whole;
      // The update works on the part whose moments this rank has.
      const Layout in_update = levels.optimizer ? part : whole;
      pins.states[value.name] = {rest, kind == SegmentKind::kUpdate ? in_update : whole};
    } else if (role == "optimizer") {
      pins.states[value.name] = levels.optimizer ? StateLayout{part, part} : StateLayout{whole, whole};
    } else if (role == "gradient") {
      const Layout rest = levels.gradients && dim >= 0 ? part : along_data(Placement::sum());
      const Layout use = kind == SegmentKind::kUpdate ? (levels.optimizer ? part : whole) : rest;
      pins.states[value.name] = {rest, use};
    }
  }
  if (kind == SegmentKind::kForwardBackward) {
    // Only the update adds them up, once a step.
    pins.outputs["loss"] = pins.outputs["count"] = along_data(Placement::sum());
    const ValueId loss = graph.outputs.empty() ? kNoValue : graph.outputs[0].value;
    if (levels.parameters && loss != kNoValue) pins.forward_end = graph.values[loss].name;
  }
  if (kind == SegmentKind::kEvaluate) pins.outputs["logits"] = along_data(Placement::split(0));
  return pins;
}

}  // namespace trireme

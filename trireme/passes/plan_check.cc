// What models say of their parameters (attributes of states; models/network.h) against what plans want.
#include "trireme/passes/plan_check.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/exchange/choice.h"
#include "trireme/ir/trained.h"
#include "trireme/passes/pins.h"
#include "trireme/plan/combinations.h"

namespace trireme {
namespace {

bool any_parameter(const Graph& graph, bool (*fits)(const Value&)) {
  return std::ranges::any_of(
      graph.values, [&](const Value& value) { return value.role == Role::kParameter && fits(value); });
}

bool is_convolution(const Value& value) {
  return value.attrs.text("layer", "") == "convolution";
}
bool is_norm(const Value& value) {
  return value.attrs.text("layer", "") == "norm";
}
bool has_experts(const Value& value) {
  return value.attrs.has(kExpertDim);
}
bool has_features(const Value& value) {
  return value.attrs.has("tensor_dim");
}

// Sequences that ranks share are those of tokens, with attention between them.
void check_sequences(const Plan& plan, const Graph& graph, const Preset& preset) {
  const int axis = plan.mesh.find(preset.axis);
  const int ranks = axis < 0 ? 1 : plan.mesh.axes()[axis].size;
  for (const Value& value : graph.values) {
    if (value.role != Role::kBatch) continue;
    const Shape& shape = value.type.shape;
    if (shape.rank() != 2 || shape[1] < ranks || value.type.dtype != DType::i32)
      throw_error(
          "the preset {} splits sequences of tokens over {} ranks, but the model's input {} is {}; [rows, "
          "tokens] expected, with {} tokens at least",
          preset.name, ranks, value.name, to_string(value.type), ranks);
    if (preset.sequences == Sequences::kHeads && shape[1] % ranks != 0)
      throw_error(
          "the preset {} exchanges parts of sequences for heads, which must be even: {} tokens can not be "
          "split evenly over {} ranks of the axis {}; the preset context can split them",
          preset.name, shape[1], ranks, preset.axis);
    if (preset.dealt == Dealt::kStripes && shape[1] % ranks != 0)
      throw_error(
          "the preset {} deals sequences out in stripes, as many to each rank: {} tokens can not be split "
          "evenly over {} ranks of the axis {}; the preset context alone can split them, in unlike runs",
          preset.name, shape[1], ranks, preset.axis);
  }
  bool attends = false;
  for (const Node& node : graph.nodes) {
    if (node.op->heads.empty()) continue;
    attends = true;
    if (preset.sequences != Sequences::kHeads) continue;
    const IndexRule rule = rule_of(graph, node);
    const int64_t heads = std::ranges::find(rule.indices, node.op->heads, &Index::name)->extent;
    const int tensor = plan.has("megatron") ? plan.mesh.find("tensor") : -1;
    const int64_t ways = int64_t{ranks} * (tensor < 0 ? 1 : plan.mesh.axes()[tensor].size);
    if (heads % ways != 0)
      throw_error(
          "the preset {} splits attention by heads, and {} has {} heads of keys and values, which can not be "
          "shared evenly by {} ranks; use the preset context, which gathers keys and values",
          preset.name, graph.values[node.outputs[0]].name, heads, ways);
  }
  if (!attends)
    throw_error(
        "the preset {} splits sequences of which attention sees all, and this model has no attention; data and "
        "zero1 to zero3 work for every model",
        preset.name);
}

void check_presets(const Plan& plan, const Graph& graph) {
  const bool convolutions = any_parameter(graph, is_convolution);
  const bool features = any_parameter(graph, has_features);
  Features asked = features_of(plan);
  if (convolutions) asked.insert(Feature::kConvolutions);
  check_combinations(asked);
  if (plan.has("megatron") && !features) {
    throw_error(
        "the preset megatron has nothing to split: no weight of this model says how it may be (tensor_dim, "
        "models/network.h); data and zero1 to zero3 work for every model");
  }
  if (plan.has("expert") && !any_parameter(graph, has_experts)) {
    throw_error(
        "the preset expert has nothing to split: this model has no experts (model.moe.experts); data and "
        "zero1 to zero3 work for every model");
  }
  const Preset* context = plan.preset_over("context");
  if (context && context->sequences != Sequences::kWhole) check_sequences(plan, graph, *context);
  if (plan.has("sequence") && !any_parameter(graph, is_norm)) {
    throw_error(
        "sequence splits what lies between the blocks of a transformer (norms, dropout, residual sums), and "
        "this model has no such norms; megatron without it works");
  }
  if (plan.has("hybrid_cnn") && (!convolutions || !features)) {
    throw_error(
        "the preset hybrid_cnn splits convolutions by batch and fully connected layers by features, but this "
        "model has no {}",
        convolutions ? "fully connected layer that says how it may be split" : "convolutions");
  }
}

// What a layout may be given to: not gradients and moments, which follow their parameter.
bool may_be_named(const Value& value) {
  return !value.attrs.has("of");
}

void check_layouts(const Plan& plan, const std::vector<StepSegment>& whole) {
  std::vector<std::string> names;
  for (const auto& [pattern, layout] : plan.layouts) {
    bool found = false;
    const Value* input = nullptr;
    for (const StepSegment& segment : whole) {
      for (const Value& value : segment.graph.values) {
        if (!may_be_named(value)) continue;
        if (value.kind != Value::Kind::kInput) names.push_back(value.name);
        if (!fits_pattern(pattern, value.name)) continue;
        if (value.kind == Value::Kind::kInput) {
          input = &value;
          continue;
        }
        found = true;
        check_layout(layout, value.type.shape, plan.mesh, value.name);
        if (value.kind == Value::Kind::kResult) continue;
        if (std::ranges::any_of(layout, [](const Placement& placement) { return placement.is_partial(); })) {
          throw_error(
              "layout {} of {}: a state can be split, but not be a sum or maximum still to be "
              "put together",
              to_string(layout, plan.mesh), value.name);
        }
      }
    }
    if (found) continue;
    // A rank that wants another part of what it is given takes a slice, which moves nothing.
    if (input) {
      throw_error(
          "the plan gives the layout {} to '{}', which is an input: rows of inputs are dealt to the ranks of "
          "the axis data, and all else of them is there whole. Give the layout to what is made of it",
          to_string(layout, plan.mesh), input->name);
    }
    const std::string near = nearest(pattern, names);
    throw_error(
        "the plan gives a layout to '{}', but this model has no value that is called so{}; is the plan "
        "for another model? `trireme inspect graph` shows all names",
        pattern, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
  }
}

void check_rows(const Plan& plan, const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.role == Role::kBatch) batch_rows(plan, value.type.shape[0], /*rank=*/0);
  }
}

// Of all updates, of which there may be several.
std::vector<std::string> names_of_parameters(const std::vector<StepSegment>& whole) {
  std::vector<std::string> names;
  for (const StepSegment& segment : whole) {
    for (const Value& value : segment.graph.values) {
      if (segment.kind == SegmentKind::kUpdate && value.role == Role::kParameter) names.push_back(value.name);
    }
  }
  return names;
}

}  // namespace

void check_plan(const Plan& plan, const std::vector<StepSegment>& whole) {
  check_exchange_names(plan, names_of_parameters(whole));
  for (const StepSegment& segment : whole) {
    if (segment.kind == SegmentKind::kUpdate) check_exchange(plan, segment.graph);
  }
  if (plan.mesh.ranks() == 1) return;
  for (const StepSegment& segment : whole) {
    if (segment.kind != SegmentKind::kForwardBackward) continue;
    check_presets(plan, segment.graph);
    check_rows(plan, segment.graph);
  }
  check_layouts(plan, whole);
  for (const StepSegment& segment : whole) pins_of(plan, segment.graph, segment.kind, Microbatches::kOne);
}

}  // namespace trireme

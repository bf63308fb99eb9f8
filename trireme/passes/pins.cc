// The rows of plan/preset.h in terms of layouts.
#include "trireme/passes/pins.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/ir/trained.h"

namespace trireme {
namespace {

// −1 also for an axis of one rank, over which nothing is spread.
int spread_axis(const Mesh& mesh, std::string_view name) {
  const int found = mesh.find(name);
  return found >= 0 && mesh.axes()[found].size > 1 ? found : -1;
}

// Of activations of transformers, [batch, sequence, features].
constexpr int kBatchDim = 0, kSequenceDim = 1;

// How sequences of so many tokens are split over the ranks along context. Stripes are the widest that leave
// no rank with more than kMostWork of the mean under a causal mask: of B blocks, each of which all ranks have
// a stripe of, the last has 1 + (ranks − 1) / (ranks · B). Kernels compute wide ones at less cost.
constexpr double kMostWork = 1.03;
Placement split_sequence(const Preset& preset, int64_t tokens, int64_t ranks, int dim) {
  if (preset.dealt == Dealt::kRuns || tokens % ranks != 0) return Placement::split(dim);
  const int64_t most = tokens / ranks;
  int64_t blocks = 1;
  while (blocks < most && (most % blocks != 0 || static_cast<double>(ranks - 1) >
                                                     (kMostWork - 1) * static_cast<double>(ranks * blocks)))
    ++blocks;
  return Placement::split(dim, 1, blocks);
}

// Preset over an axis that has ranks to spread over.
const Preset* preset_over(const Plan& plan, std::string_view axis) {
  return spread_axis(plan.mesh, axis) >= 0 ? plan.preset_over(axis) : nullptr;
}

// Rows that lie next to each other go to ranks along expert, which exchange them: those of a rank along data
// and replica are a block, and each is dealt out.
Layout along_rows(const Plan& plan) {
  Layout layout = replicated(plan.mesh);
  for (const int axis : batch_axes(plan)) layout[axis] = Placement::split(kBatchDim);
  const int expert = spread_axis(plan.mesh, "expert");
  for (const std::string_view name : {kReplicaAxis, kDataAxis}) {
    const int axis = spread_axis(plan.mesh, name);
    if (axis >= 0 && expert >= 0 && layout[expert].kind == Placement::Kind::kSplit)
      layout[expert].blocks *= plan.mesh.axes()[axis].size;
  }
  return layout;
}

// A method compresses a rank's whole gradient and keeps what it has not sent of it. Along data, gradients are
// then split by none of ZeRO's stages; along an axis `replica`, they are added up over data before, each
// microbatch's.
StateShares shares_over_data(const Plan& plan) {
  StateShares shares = *plan.preset_over(kDataAxis)->states;
  if (plan.agreement.kind() != Agreement::Kind::kCompressed) return shares;
  if (replica_axis(plan.mesh) == kReplicaAxis)
    shares.gradient = shares.gradient_of_one;
  else if (shares.gradient.at_rest == Share::kPart)
    shares.gradient.at_rest = shares.gradient.in_use = Share::kAddend;
  return shares;
}

class PinMaker {
 public:
  PinMaker(const Plan& plan, SegmentKind kind, Microbatches microbatches)
      : plan_(plan),
        mesh_(plan.mesh),
        kind_(kind),
        microbatches_(microbatches),
        shares_(shares_over_data(plan)),
        tensor_preset_(preset_over(plan, "tensor")),
        data_(spread_axis(mesh_, kDataAxis)),
        tensor_(tensor_preset_ ? spread_axis(mesh_, "tensor") : -1),
        expert_(preset_over(plan, "expert") ? spread_axis(mesh_, "expert") : -1),
        exchanged_(plan.agreement.is_dense() ? -1 : spread_axis(mesh_, kReplicaAxis)),
        compresses_sums_(exchanged_ >= 0 && plan.agreement.kind() == Agreement::Kind::kCompressed),
        context_preset_(preset_over(plan, "context")),
        context_(context_preset_ ? spread_axis(mesh_, "context") : -1),
        addend_axes_(batch_axes(plan)) {
    if (context_ >= 0) addend_axes_.push_back(context_);
  }

  Pins pins(const Graph& graph) const {
    Pins pins;
    for (const Value& value : graph.values) {
      const Layout* given = plan_.layout_of(value.name);
      if (value.kind == Value::Kind::kState) {
        pins.states[value.name] = state(value);
      } else if (given && value.kind == Value::Kind::kResult) {
        pins.values[value.name] = normal_form(*given, value.type.shape, mesh_);
      } else if (value.role == Role::kBatch) {
        pins.values[value.name] = along_rows(plan_);
        if (context_ >= 0) pins.states[value.name] = {along_rows(plan_), along_positions(value)};
      }
    }
    if (kind_ != SegmentKind::kUpdate) pin_casts(graph, pins);
    for (const auto& [axis, preset] : {std::pair{tensor_, tensor_preset_}, {context_, context_preset_}}) {
      if (axis < 0 || preset->scatter == Scatter::kNothing) continue;
      pins.scatter.resize(mesh_.axes().size());
      pins.scatter[axis] = Placement::split(preset->scatter == Scatter::kSequence ? kSequenceDim : kBatchDim);
      for (const Value& value : graph.values) {
        if (axis == context_ && value.role == Role::kBatch)
          pins.scatter[axis] = over_context(value.type.shape, kSequenceDim);
      }
    }
    if (context_ >= 0 && context_preset_->sequences == Sequences::kHeads) {
      pins.by_heads.resize(mesh_.axes().size());
      pins.by_heads[context_] = true;
    }
    // Each rank makes its addend, even where gathering what it is made of would move less: the computation is
    // to be shared too.
    for (const Update& update : graph.updates) {
      const Value& state = graph.values[update.state];
      if (kind_ != SegmentKind::kUpdate && added_at_once() && state.role == Role::kGradient)
        pins.values[graph.values[update.value].name] = with_sums(state, in_use(state));
    }
    for (const Output& output : graph.outputs) {
      if (is_addend(output.role)) pins.outputs[output.name] = sum_over_targets();
      if (output.role == OutputRole::kRows) pins.outputs[output.name] = along_rows(plan_);
    }
    // The loss, from which the backward part starts.
    const bool gathered = shares_.parameter.at_rest != shares_.parameter.in_use;
    if (kind_ == SegmentKind::kForwardBackward && gathered && !graph.outputs.empty())
      pins.forward_end = graph.values[graph.outputs[0].value].name;
    return pins;
  }

 private:
  bool along_sequence() const { return tensor_ >= 0 && tensor_preset_->scatter == Scatter::kSequence; }

  const Shares& gradient_shares() const {
    return microbatches_ == Microbatches::kOne ? shares_.gradient_of_one : shares_.gradient;
  }
  // Whether gradients are added up over the ranks as they are made.
  bool added_at_once() const {
    return microbatches_ == Microbatches::kOne && gradient_shares().at_rest != Share::kAddend;
  }

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

  Layout sum_over_targets() const {
    Layout layout = replicated(mesh_);
    for (int axis : addend_axes_) layout[axis] = Placement::sum();
    return layout;
  }

  Placement over_context(const Shape& shape, int dim) const {
    const int64_t tokens = dim < shape.rank() ? shape[dim] : 0;  // layouts are checked later
    return split_sequence(*context_preset_, tokens, mesh_.axes()[context_].size, dim);
  }

  // Every rank is given whole sequences and takes its part of them.
  Layout along_positions(const Value& value) const {
    Layout layout = along_rows(plan_);
    layout[context_] = over_context(value.type.shape, kSequenceDim);
    return normal_form(layout, value.type.shape, mesh_);
  }

  StateLayout state(const Value& value) const {
    const Layout whole = in_use(value);
    const Shares* shares = shares_of(value.role);
    if (!shares) return {whole, whole};
    const Share at_rest = share_at_rest(*shares, value);
    StateLayout layout{lying(at_rest, value, whole), {}};
    // Sums over axes that do not split it, and of what can not be split at all, are made once in the update.
    if (shares == &gradient_shares() && shares->at_rest == Share::kPart && !added_at_once() &&
        !compresses_sums_)
      layout.rest = with_sums(value, layout.rest);
    if (shares == &gradient_shares() && exchanged_ >= 0 &&
        layout.rest[exchanged_].kind == Placement::Kind::kReplicated)
      layout.rest[exchanged_] = Placement::sum();
    if (kind_ == SegmentKind::kEvaluate && value.role == Role::kOptimizer)
      layout.use = whole;  // averages of weights, which are used as weights are
    else if (kind_ == SegmentKind::kUpdate && value.attrs.has("addends"))
      layout.use = layout.rest;  // it is added to others first, then over the ranks
    else if (kind_ == SegmentKind::kUpdate)
      layout.use = lying(shares->in_update, value, whole);
    else
      layout.use = shares->in_use == at_rest ? layout.rest : lying(shares->in_use, value, whole);
    return layout;
  }

  // With one microbatch, weights that the update makes in parts rest as it leaves them, and the next step
  // gathers them ahead of their use, while it computes. In the update there is little to compute meanwhile;
  // but with several microbatches each would gather them. Frozen weights are never made, so they stay whole.
  Share share_at_rest(const Shares& shares, const Value& value) const {
    const bool made_in_parts = shares.at_rest == Share::kWhole && shares.in_update == Share::kPart;
    return made_in_parts && microbatches_ == Microbatches::kOne && is_trained(value) ? Share::kPart
                                                                                     : shares.at_rest;
  }

  const Shares* shares_of(Role role) const {
    if (role == Role::kParameter) return &shares_.parameter;
    if (role == Role::kMaster || role == Role::kOptimizer) return &shares_.optimizer;
    return role == Role::kGradient ? &gradient_shares() : nullptr;
  }

  Layout lying(Share share, const Value& value, const Layout& whole) const {
    switch (share) {
      case Share::kWhole:
        return whole;
      case Share::kPart:
        return by_zero(value, whole);
      case Share::kAddend:
        return with_sums(value, whole);
    }
    return whole;
  }

  // How gradients of what lies as `whole` are accumulated: each rank adds up what its rows give, or its part
  // of the sequence.
  Layout with_sums(const Value& value, Layout whole) const {
    for (int axis : addend_axes_) {
      if (whole[axis].kind == Placement::Kind::kReplicated) whole[axis] = Placement::sum();
    }
    if (along_sequence() && value.attrs.has("of") && whole[tensor_].kind == Placement::Kind::kReplicated)
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
    if (expert_ >= 0 && value.attrs.has(kExpertDim)) {
      layout[expert_] = Placement::split(static_cast<int>(value.attrs.integer(kExpertDim)));
      check_parts(value, layout[expert_], mesh_.axes()[expert_]);
    }
    if (context_ >= 0 && value.attrs.has("tensor_sequence_dim")) {
      const int dim = static_cast<int>(value.attrs.integer("tensor_sequence_dim"));
      layout[context_] = over_context(value.type.shape, dim);
      check_parts(value, layout[context_], mesh_.axes()[context_]);
    }
    if (tensor_ < 0) return normal_form(layout, value.type.shape, mesh_);
    if (tensor_preset_->weights == Weights::kFeaturesAndPositions && value.attrs.has("tensor_sequence_dim")) {
      layout[tensor_] = Placement::split(static_cast<int>(value.attrs.integer("tensor_sequence_dim")));
    } else if (value.attrs.has("tensor_dim")) {
      layout[tensor_] =
          Placement::split(static_cast<int>(value.attrs.integer("tensor_dim")),
                           value.attrs.integer("tensor_unit", 1), value.attrs.integer("tensor_blocks", 1));
    }
    if (layout[tensor_].kind == Placement::Kind::kSplit)
      check_parts(value, layout[tensor_], mesh_.axes()[tensor_]);
    return normal_form(layout, value.type.shape, mesh_);
  }

  static void check_parts(const Value& value, const Placement& split, const Axis& axis) {
    const int64_t units = value.type.shape[split.dim] / split.unit / split.blocks;
    if (units >= axis.size) return;
    throw_error(
        "{} {} has {} parts (heads, features, rows or experts) that can be told apart along dim {}; {} ranks "
        "of the axis {} are too many for it",
        value.name, to_string(value.type.shape), units, split.dim, axis.size, axis.name);
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
  Microbatches microbatches_;
  const StateShares shares_;
  const Preset* tensor_preset_;   // may be null
  int data_, tensor_, expert_;    // axes; −1 where there is none
  int exchanged_;                 // replica, where an exchange takes the place of sums over it; or −1
  bool compresses_sums_;          // there, of what was added up over data
  const Preset* context_preset_;  // may be null
  int context_;
  std::vector<int> addend_axes_;  // over which targets are spread, and so what is added up over them
};

}  // namespace

std::vector<int> batch_axes(const Plan& plan) {
  std::vector<int> axes;
  for (const std::string_view axis :
       {kReplicaAxis, kDataAxis, std::string_view("expert"), std::string_view("tensor")}) {
    const Preset* preset = preset_over(plan, axis);
    if (preset && preset->rows == Preset::Rows::kShared) axes.push_back(spread_axis(plan.mesh, axis));
  }
  return axes;
}

int64_t batch_parts(const Plan& plan) {
  if (const Servers* servers = plan.agreement.servers()) return servers->workers;
  int64_t parts = 1;
  for (const int axis : batch_axes(plan)) parts *= plan.mesh.axes()[axis].size;
  return parts;
}

bool others_share_batch(const Plan& plan) {
  if (plan.agreement.servers() || spread_axis(plan.mesh, replica_axis(plan.mesh)) < 0) return false;
  return std::ranges::any_of(batch_axes(plan), [&](int axis) {
    const std::string& name = plan.mesh.axes()[axis].name;
    return name != kDataAxis && name != kReplicaAxis;
  });
}

Part batch_rows(const Plan& plan, int64_t rows, int rank) {
  int64_t ways = 1;
  for (int axis : batch_axes(plan)) ways *= plan.mesh.axes()[axis].size;
  if (rows < ways) {
    throw_error(
        "a microbatch of {} rows can not be shared by {} ranks; a larger train.batch, fewer microbatches "
        "(train.accumulate) or fewer ranks are needed",
        rows, ways);
  }
  const Layout layout = along_rows(plan);
  check_layout(layout, {rows}, plan.mesh, "the rows of a microbatch");
  return local_pieces({rows}, layout, plan.mesh, rank)[0][0];
}

Pins pins_of(const Plan& plan, const Graph& graph, SegmentKind kind, Microbatches microbatches) {
  return PinMaker(plan, kind, microbatches).pins(graph);
}

}  // namespace trireme

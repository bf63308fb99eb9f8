// See step_gradients.h.
#include "trireme/train/step_gradients.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "trireme/ir/builder.h"
#include "trireme/ir/scope.h"
#include "trireme/ir/trained.h"
#include "trireme/ops/table.h"
#include "trireme/optim/tallies.h"
#include "trireme/optim/update.h"
#include "trireme/passes/autodiff.h"
#include "trireme/passes/prune.h"

namespace trireme {
namespace {

// The first microbatch starts from the states themselves, the next ones from what is pending.
Graph with_pending_states(Graph forward, Accumulate accumulate, Role role) {
  if (accumulate == Accumulate::kAdd) {
    for (const Update& update : forward.updates) {
      Value& state = forward.values[update.state];
      state.name = pending_name(state.name);
      state.role = Role::kPending;
      state.attrs = {};
    }
    return forward;
  }
  const std::vector<Update> updates = std::exchange(forward.updates, {});
  Builder b(ops(), std::move(forward));
  for (const Update& update : updates) {
    const Value state = b.graph().values[update.state];
    b.update(b.state(pending_name(state.name), state.type, role), update.value);
  }
  return b.take();
}

// The addends of a gradient, by the chunk that makes them; all as one where the model is not cut.
std::map<int, std::vector<ValueId>> by_chunk(const Graph& graph, const std::vector<ValueId>& addends,
                                             const Cut& cut) {
  std::map<int, std::vector<ValueId>> result;
  for (ValueId addend : addends)
    result[cut.chunks == 1 ? 0 : std::max(0, cut.chunk_of_name(graph.values[addend].name))].push_back(addend);
  return result;
}

}  // namespace

std::vector<ValueId> parameters_of(const Graph& graph) {
  std::vector<ValueId> result;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (is_trained(graph.values[i])) result.push_back(static_cast<ValueId>(i));
  }
  return result;
}

Graph with_gradients(Graph forward, Accumulate accumulate, Role pending, const TrainOptions& train,
                     const Cut& cut) {
  forward = with_pending_states(std::move(forward), accumulate, pending);
  const std::vector<ValueId> parameters = parameters_of(forward);
  const std::vector<Output> outputs = std::exchange(forward.outputs, {});
  const ValueId loss = outputs.at(0).value, count = outputs.at(1).value;
  std::vector<ValueId> objective = {loss};
  for (const Output& output : outputs) {
    if (output.role == OutputRole::kObjective) objective.push_back(output.value);
  }
  Builder b(ops(), std::move(forward));
  const ValueId loss_scale = b.input("loss_scale", {DType::f32, {}}, Role::kScalar);
  const Backward backward = differentiate(b, objective, loss_scale, parameters);
  const std::vector<ValueId>& gradients = backward.gradients;
  const auto store = [&](std::string_view name, ValueId value, Attrs attrs = {}) {
    const ValueId state = b.state(name, b.type(value), Role::kGradient, std::move(attrs));
    const Builder::Scope scope(b, name);
    b.update(state, accumulate == Accumulate::kAdd ? b.op("add", {state, value}) : value);
  };
  // In the order in which they are made, so that neighbours in memory are reduced together.
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return gradients[i]; });
  ValueId squares = kNoValue;
  for (size_t i : order) {
    const Value parameter = b.graph().values[parameters[i]];
    const TensorType type = gradient_type(parameter, update_options(train));
    const auto kept = [&](ValueId value) {
      if (b.type(value) == type) return value;
      const Builder::Scope scope(b, scope_of(b.graph().values[value].name));
      return b.op("cast", {value}, {{"to", std::string(name(type.dtype))}});
    };
    // A parameter that the loss does not depend on has a gradient of zeros.
    const ValueId gradient =
        kept(gradients[i] != kNoValue ? gradients[i] : b.op("affine", {parameters[i]}, {{"scale", 0.0}}));
    // Before it is stored: where the state is split, addends are put together for that.
    if (train.noise_scale) {
      const Builder::Scope scope(b, "squares");
      const ValueId part = b.op("sum_squares", {gradient}, {{"of", "addends"}});
      squares = squares == kNoValue ? part : b.op("add", {squares, part});
    }
    const auto of_chunks = by_chunk(b.graph(), backward.addends[i], cut);
    if (of_chunks.size() < 2) {
      store(gradient_name(parameter.name), gradient, companion_attrs(parameter));
      continue;
    }
    int number = 0;
    for (const auto& [chunk, addends] : of_chunks) {
      const Builder::Scope scope(b, scope_of(b.graph().values[addends[0]].name));
      ValueId sum = addends[0];
      for (size_t a = 1; a < addends.size(); ++a) sum = b.op("add", {sum, addends[a]});
      const bool first = number == 0;
      const Value other = shared_gradient(parameter, update_options(train), number++);
      store(first ? gradient_name(parameter.name) : other.name, kept(sum),
            first ? companion_attrs(parameter) : other.attrs);
    }
  }
  store(kLossState, loss);
  store(kCountState, count);
  for (size_t i = 2; i < outputs.size(); ++i) {
    const Builder::Scope scope(b, scope_of(b.graph().values[outputs[i].value].name));
    store(
        tally_state_name(outputs[i].name), outputs[i].value,
        {{std::string(kTallies), std::string(name(outputs[i].role))}, {"layer", layer_of_tally(outputs[i])}});
  }
  if (train.noise_scale) {
    store(kSquaresState, squares);
    store(kCountSquaresState, b.op("sum_squares", {count}, {{"of", "addends"}}));
  }
  b.output("loss", loss, OutputRole::kAddend);
  b.output("count", count, OutputRole::kAddend);
  // Where chunks keep gradients of their own, nobody reads their sum; left in, it would be added up over
  // ranks in every microbatch.
  return cut.chunks > 1 ? prune(b.take()) : b.take();
}

}  // namespace trireme

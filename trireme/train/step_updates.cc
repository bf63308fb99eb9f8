// See step_updates.h.
#include "trireme/train/step_updates.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/ir/trained.h"
#include "trireme/optim/update.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/train/step_gradients.h"

namespace trireme {
namespace {

// A server takes the mean of what all workers made of running statistics in a step; or, where each gradient
// makes an update, goes a part of the way to what one of them has.
Renewal served_renewal(const Servers& servers) {
  return {Renewal::By::kWeightedSum, servers.updates == Servers::Updates::kClocks ? 1 : servers.workers};
}

// The gradient states of a step that shared_gradient() made.
SharedGradients shared_gradients(const Graph& first) {
  SharedGradients result;
  for (const Value& value : first.values) {
    if (value.attrs.has("addend_of")) result[value.attrs.text("of")].push_back(value);
  }
  return result;
}

// The chunk that reads each parameter, where no two of them share one.
std::vector<int> chunks_of_parameters(const Graph& forward, const Cut& cut) {
  std::vector<int> chunk_of(forward.values.size(), -1), result;
  for (const Node& node : forward.nodes) {
    const int chunk = cut.chunk_of_name(forward.values[node.outputs[0]].name);
    for (ValueId input : node.inputs) {
      if (chunk < 0 || !is_trained(forward.values[input])) continue;
      if (chunk_of[input] >= 0 && chunk_of[input] != chunk)
        throw_error(
            "{} is a weight of two stages (a tied head), which would update it at different times under an "
            "asynchronous schedule; use a model that ties no weights, or a synchronous schedule",
            forward.values[input].name);
      chunk_of[input] = chunk;
    }
  }
  for (ValueId parameter : parameters_of(forward)) result.push_back(std::max(0, chunk_of[parameter]));
  return result;
}

// One for each chunk, of its own parameters.
std::vector<Graph> chunk_updates(const Graph& forward, const Cut& cut, const OptimOptions& optim,
                                 const TrainOptions& train) {
  const std::vector<int> chunk_of = chunks_of_parameters(forward, cut);
  const std::vector<ValueId> parameters = parameters_of(forward);
  std::vector<Graph> result;
  for (int chunk = 0; chunk < cut.chunks; ++chunk) {
    std::vector<Value> own;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (chunk_of[i] == chunk) own.push_back(forward.values[parameters[i]]);
    }
    if (own.empty())
      throw_error(
          "chunk {} of the pipeline has no parameters to update; cut the model elsewhere (the plan's key "
          "stages), or use fewer stages",
          chunk);
    result.push_back(update_graph(own, {}, optim, update_options(train)));
    result.back().name = fmt::format("update.{}", chunk);
  }
  return result;
}

// One for each server, of as many elements as can be: the largest parameters first, each to who has least.
// The first one, which evaluates, has the buffers.
std::vector<Graph> server_updates(const std::vector<Value>& parameters, const std::vector<Value>& buffers,
                                  int servers, const Renewal& renewal, const OptimOptions& optim,
                                  const TrainOptions& train) {
  if (servers > std::ssize(parameters))
    throw_error("the plan has {} servers, but the model has {} parameters to share among them; use fewer",
                servers, parameters.size());
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return parameters[i].type.shape.elements(); });
  std::vector<int64_t> elements(static_cast<size_t>(servers));
  std::vector<size_t> server_of(parameters.size());
  for (const size_t i : order) {
    server_of[i] = static_cast<size_t>(std::ranges::min_element(elements) - elements.begin());
    elements[server_of[i]] += std::max<int64_t>(1, parameters[i].type.shape.elements());
  }
  std::vector<Graph> result;
  for (size_t server = 0; server < elements.size(); ++server) {
    std::vector<Value> own;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (server_of[i] == server) own.push_back(parameters[i]);
    }
    const std::vector<Value> renewed = server == kLeadingServer ? buffers : std::vector<Value>();
    result.push_back(update_graph(own, renewed, optim, update_options(train), renewal));
    result.back().name = fmt::format("update.{}", server);
  }
  return result;
}

}  // namespace

std::vector<Value> renewed_states(const Graph& forward) {
  std::vector<Value> result;
  for (const Update& update : forward.updates) result.push_back(forward.values[update.state]);
  return result;
}

Tallies tallies_of(const Graph& first) {
  Tallies result;
  for (const Value& value : first.values) {
    if (value.attrs.has(kTallies)) result.sums.push_back(value);
    if (value.role == Role::kBuffer && value.attrs.has(kBalances)) result.biases.push_back(value);
  }
  return result;
}

std::vector<Graph> step_updates(const Graph& forward, const Graph& first, const Cut& cut,
                                const Schedule& schedule, const Plan& plan, const OptimOptions& optim,
                                const TrainOptions& train) {
  if (plan.pipeline_stages() > 1 && is_asynchronous(pipeline_of(plan, schedule.microbatches)))
    return chunk_updates(forward, cut, optim, train);
  std::vector<Value> parameters;
  for (ValueId id : parameters_of(forward)) parameters.push_back(forward.values[id]);
  const std::vector<Value> renewed = renewed_states(forward);
  const Servers* servers = plan.agreement.servers();
  if (servers && servers->count > 1)
    return server_updates(parameters, renewed, servers->count, served_renewal(*servers), optim, train);
  Renewal renewal;
  if (schedule.deal == Schedule::Deal::kWholes) renewal = {Renewal::By::kSum, schedule.microbatches};
  if (servers) renewal = served_renewal(*servers);
  return {update_graph(parameters, renewed, optim, update_options(train), renewal, shared_gradients(first),
                       tallies_of(first))};
}

}  // namespace trireme

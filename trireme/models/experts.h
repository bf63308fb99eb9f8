// Mixtures of experts in the place of feed-forward layers: a router gives each token k of E experts, whose
// results are added up with weights (docs/experts.md). Tokens compete for the slots of experts within a
// routing group, which is part of a sequence, so that no result depends on how a batch is spread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/models/model.h"

namespace trireme {

// What a published gate is made of: a row of the table in docs/experts.md.
struct Gate {
  std::string_view name;
  std::string_view scores;  // softmax, sigmoid
  int64_t top_k, most_k;    // published; allowed
  bool normalise;           // weights of a token add up to `scale`
  double scale, capacity, balance;
  enum class Places { kOfTokens, kOfChoices, kMultiples } places;  // how capacity becomes slots
  int64_t balanced_choices;                                        // 0: all
  bool draws_second;  // the second choice is made with probability 2·w
  bool corrects;      // by a bias, renewed once a step from the load
};
const Gate& find_gate(std::string_view name);  // an Error with the nearest name where there is none
std::vector<std::string> gate_names();         // and those that are known and refused

bool has_experts(const ModelOptions& options, int64_t layer);

// With those filled in that follow from the gate and the model.
MoeOptions sizes_of(const MoeOptions& moe, int64_t feed_forward);
// Slots of an expert in a routing group of so many tokens.
int64_t expert_capacity(const MoeOptions& sized, int64_t tokens);
// What is wrong between model.moe.* and the model's other settings.
std::vector<std::string> expert_problems(const ModelOptions& options);

// How a family writes its experts; weights of all of them are one tensor [E, …].
struct ExpertStyle {
  Network::Store store;
  std::string_view router, bias, experts, shared;  // names within the layer
  std::vector<std::string_view> up;                // one weight, or two of a gated layer
  std::string_view down;
  double deviation, residual_deviation;
  // The activation, of what each of `up` gave.
  std::function<ValueId(Network&, const std::vector<ValueId>&)> activate;
  // A dense layer of this name and inner width: the experts that all tokens share.
  std::function<ValueId(Network&, ValueId x, const std::string& name, int64_t inner)> dense;
};
// Of x [b, t, m].
ValueId mixture_of_experts(Network& net, const ModelOptions& options, ValueId x, const std::string& name,
                           const ExpertStyle& style);

// Of a graph's trained parameters: all, and those that a token meets (of E experts, k).
struct ParameterCounts {
  int64_t total = 0, active = 0;
};
ParameterCounts count_parameters(const Graph& graph);
// Of a state: a tensor of experts, of which a token meets this many.
inline constexpr std::string_view kActiveExperts = "active_experts";

}  // namespace trireme

// What training adds up over the microbatches and ranks of a step beside loss, count and gradients, and what
// the update makes of it: of each layer with experts how evenly they were used, and biases that keep them so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/ir/builder.h"

namespace trireme {

// Of the state in which one is added up: the name of its role (OutputRole).
inline constexpr std::string_view kTallies = "tallies";

// Of an output of the forward part, which has one of each role for each layer; and back.
std::string tally_name(OutputRole role, std::string_view layer);
std::string layer_of_tally(const Output& output);
std::string tally_state_name(std::string_view output);

struct Tallies {
  std::vector<Value> sums;    // states with the attribute kTallies
  std::vector<Value> biases;  // buffers with the attribute kBalances
};

// How the experts of a layer were used in a step: numbers that the update has as outputs.
struct ExpertUse {
  std::string layer;
  double max_load = 0;  // of the expert that most tokens chose, over the mean
  double dropped = 0;   // the share of choices that found no slot
  double entropy = 0;   // of the mean scores of all tokens, in nats
  double balance = 0;   // the balance loss and z-loss, added up over tokens
};
// Of a layer, the name of the update's output with each of these, in their order.
std::vector<std::string> expert_use_outputs(std::string_view layer);
// The layers whose use a graph has as outputs, in their order.
std::vector<std::string> layers_with_experts(const Graph& update);

// The outputs; and of each bias what it becomes: an expert with less than the mean load gains, one with more
// loses. `scale` is not finite where the step is skipped.
void add_tallies(Builder& b, const Tallies& tallies, ValueId scale);

// `value`, or `old` where the step is skipped.
ValueId unless_skipped(Builder& b, ValueId value, ValueId old, ValueId scale);

}  // namespace trireme

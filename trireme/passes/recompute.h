// Makes values of the forward part a second time, right before the backward part reads them, so that they
// need not be kept in between. Works on the graph of a step with forward and backward parts, whole or one
// rank's, before it is fused: fused nodes may belong to two blocks at once, and clones are then fused like
// others.
//
// A clone has the op, the attributes and, but for what is cloned too, the inputs of the node that it repeats,
// so that it makes the same bits: random numbers depend on attributes and the element alone. It is found by
// its name, which has `again` behind the scope: h.3/attn/again/matmul repeats h.3/attn/matmul (ir/scope.h).
// It belongs to the backward part and to the block of the node that it repeats.
//
// Kept as they are, and what clones start from: inputs and states; values made from states alone (casts and
// gathers of weights: a clone takes the one that the backward part has made for itself, where there is one);
// what collectives make, unless the whole block is run again or a plan names it; outputs and new values of
// states; and what a block is given by others.
#pragma once

#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/plan/plan.h"

namespace trireme {

// For each value, whether it is to be made again:
//
//   full        all that is made in a block for that block alone, collectives included: the block runs again
//               as it is. A block is a scope of the first level whose name ends in a number (h.3, layer1.0,
//               lstm.l0)
//   full_keep_collectives
//               the same, but what collectives make is kept, so that nothing is sent twice
//   selective   in any scope of the first level: what takes at most kMostFlopsPerByte to make from values
//               that the backward part reads anyway, and from others that are small beside it. In a
//               transformer these are the results of norms and activations; of products and attention, which
//               are dear, everything is kept.
//   names       what is made in one of these scopes for that scope alone; and the values of these names,
//               whatever makes them. Patterns as in the plan's layouts.
//
// Throws Error when there is nothing of that in the graph. Ranks that must have the same nodes go by one
// rank's answer: sizes, by which it is selected, may differ.
std::vector<bool> values_made_again(const Graph& graph, const Recompute& what);
inline constexpr double kMostFlopsPerByte = 8;
inline constexpr double kMostMorePerByte = 1.0 / 16;  // bytes that are kept for it

Graph recompute(const Graph& graph, const std::vector<bool>& again);

// The first node of the backward part; all nodes where there is none.
int backward_begin(const Graph& graph);

// What is kept from the forward part for the backward one: bytes of results that are made in the one and read
// in the other, but not what is made from states alone. What shares memory counts once.
size_t kept_bytes(const Graph& graph);

}  // namespace trireme

// Ops whose parts can be split where the whole can not: a loss over split classes, a batch norm over split
// rows. A node is replaced by the smaller ops of its record (OpRecord::expand) where the layouts of a plan
// make one of the values between them a sum or maximum still to be put together; elsewhere the one op, which
// goes over memory once, stays. Runs after autodiff and before spread. States, inputs, outputs and first
// results keep their names.
#pragma once

#include "trireme/passes/spread.h"

namespace trireme {

// Nodes that the graph of `alike` had too are replaced where they were there, so that the two can be spread
// alike.
Graph expand(const Graph& graph, const Mesh& mesh, const Pins& pins, const OpTable& ops,
             const Alike* alike = nullptr);

}  // namespace trireme

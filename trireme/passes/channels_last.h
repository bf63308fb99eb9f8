// Lays images with channels last, where a device computes ops on them at less cost so: ops that have such a
// form (OpRecord::channels_last) take it, what is done element by element in between follows, and transposes
// stand where the two orders meet. The graph keeps its meaning: inputs, states and outputs lie as they did.
// Runs on the graphs of a program for one device, before device_fuse.h.
#pragma once

#include "trireme/passes/device_fuse.h"

namespace trireme {

Graph with_channels_last(const Graph& graph, const OpTable& ops, const GainQuery& gains);

}  // namespace trireme

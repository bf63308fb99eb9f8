// What passes and the Executor ask of a device before it runs anything: which kernel a node has, what memory
// that wants, which nodes it runs together, and whether the program fits.
#pragma once

#include <cstddef>

#include "trireme/passes/device_fuse.h"
#include "trireme/passes/gather.h"
#include "trireme/program/program.h"
#include "trireme/runtime/device.h"

namespace trireme {

// Whether a node needs a kernel: the results of others lie in the memory of their inputs.
bool needs_kernel(const Node& node);
// Throws an Error that names the op when the device has no kernel for the node.
const Kernel& kernel_for(const Device& device, const Graph& graph, const Node& node);

// The temporary memory that this device's kernels want for a node, for build_program().
WorkspaceQuery workspace_query(const Device& device);
// Whether this device does several such nodes at once, for gathered(); empty where it never does.
GroupQuery group_query(const Device& device);
// Whether a node costs this device less than those it stands for; empty where none does.
GainQuery gain_query(const Device& device);

// Throws an Error that names the three largest consumers, and what would help, when the program's planned
// peak is more than `free_bytes`.
void expect_room(const Program& program, size_t free_bytes);

}  // namespace trireme

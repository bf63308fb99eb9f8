// See device_queries.h.
#include "trireme/runtime/device_queries.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// The dtype by which a node's kernel is chosen; see KernelTable.
DType kernel_dtype(const Graph& graph, const Node& node) {
  for (ValueId input : node.inputs) {
    if (is_float(graph.type(input).dtype)) return graph.type(input).dtype;
  }
  return graph.type(node.outputs.at(0)).dtype;
}

}  // namespace

bool needs_kernel(const Node& node) {
  return node.op->memory != OpRecord::Memory::kShared;
}

const Kernel& kernel_for(const Device& device, const Graph& graph, const Node& node) {
  const DType dtype = kernel_dtype(graph, node);
  const Kernel* kernel = device.kernels().find(node.op->name, dtype);
  if (!kernel)
    throw_error(
        "device '{}' has no kernel for {} in {} (segment '{}'), which the plan or the model asks for; "
        "train.device=cpu has one for all",
        device.name(), node.op->name, name(dtype), graph.name);
  return *kernel;
}

WorkspaceQuery workspace_query(const Device& device) {
  return [&device](const Graph& graph, const Node& node) -> size_t {
    if (!needs_kernel(node)) return 0;
    const Kernel& kernel = kernel_for(device, graph, node);
    const std::vector<TensorType> inputs = graph.types_of(node.inputs),
                                  outputs = graph.types_of(node.outputs);
    return kernel.workspace({inputs, outputs, node.attrs, device.threads()});
  };
}

GroupQuery group_query(const Device& device) {
  if (std::ranges::none_of(device.kernels().all(),
                           [](const auto& one) { return one.second.run_many != nullptr; }))
    return {};
  return [&device](const Graph& graph, const Node& node) {
    return needs_kernel(node) && kernel_for(device, graph, node).run_many != nullptr;
  };
}

GainQuery gain_query(const Device& device) {
  if (std::ranges::none_of(device.kernels().all(),
                           [](const auto& one) { return one.second.gains != nullptr; }))
    return {};
  return [&device](const Graph& graph, const Node& node) {
    const Kernel& kernel = kernel_for(device, graph, node);
    const std::vector<TensorType> inputs = graph.types_of(node.inputs),
                                  outputs = graph.types_of(node.outputs);
    return kernel.gains && kernel.gains({inputs, outputs, node.attrs, device.threads()});
  };
}

}  // namespace trireme

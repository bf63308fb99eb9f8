// See op_time.h.
#include "trireme/sim/op_time.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::sim {
namespace {

DType format_of(const Graph& graph, const Node& node) {
  for (const ValueId input : node.inputs) {
    if (is_float(graph.type(input).dtype)) return graph.type(input).dtype;
  }
  return DType::f32;
}

// The share of the peak, of a node with so many FLOPs.
double efficiency(const Graph& graph, const Node& node, double flops, const ProductGrid& grid) {
  int64_t largest = 0, columns = 1;
  for (const ValueId output : node.outputs) {
    const Shape& shape = graph.type(output).shape;
    if (shape.elements() <= largest) continue;
    largest = shape.elements();
    columns = shape.rank() == 0 ? 1 : shape.back();
  }
  if (largest == 0) return 1;
  const double elements = static_cast<double>(largest), n = static_cast<double>(columns);
  return grid.at(elements / n, n, std::max(1.0, flops / (2 * elements)));
}

NodeTime time_of(const Graph& graph, const Node& node, const DeviceClass& device, const Cost& cost) {
  const double share = efficiency(graph, node, cost.flops, device.products);
  const auto op = device.ops.find(node.op->name);
  const double of_roofline = op == device.ops.end() ? 1 : op->second;
  const double computing = cost.flops / (device.peak(format_of(graph, node)) * share * of_roofline);
  double rate = device.bytes_per_second(cost.bytes);
  // A cache makes no op faster that does not keep up with memory.
  if (op != device.ops.end()) rate = std::min(rate, of_roofline * device.bandwidth.back().bytes_per_second);
  const double moving = cost.bytes / rate;
  return {device.launch_seconds + std::max(computing, moving), cost.flops, computing, moving};
}

}  // namespace

void check_op_shares(const DeviceClass& device, const OpTable& ops) {
  for (const auto& [op, share] : device.ops) {
    if (!ops.find(op))
      throw_error("the device class '{}' has a share of the roofline for '{}', which is no op; {}",
                  device.name, op, suggestion(op, ops.names()));
  }
}

NodeTime node_time(const Graph& graph, const Node& node, const DeviceClass& device) {
  if (node.op->memory == OpRecord::Memory::kShared) return {};
  return time_of(graph, node, device, cost_of(graph, node));
}

double part_seconds(const Graph& graph, const Node& node, const DeviceClass& device, double flops_share,
                    double bytes_share) {
  if (node.op->memory == OpRecord::Memory::kShared) return 0;
  const Cost cost = cost_of(graph, node);
  return time_of(graph, node, device, {cost.flops * flops_share, cost.bytes * bytes_share}).seconds;
}

}  // namespace trireme::sim

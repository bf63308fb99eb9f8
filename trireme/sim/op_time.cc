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
  const double peak = device.peak(format_of(graph, node));
  const double product = efficiency(graph, node, cost.flops, device.products);
  const double from_memory = cost.bytes / device.bandwidth.back().bytes_per_second;
  double computing = cost.flops / (peak * product), moving = cost.bytes / device.bytes_per_second(cost.bytes);
  const auto op = device.ops.find(node.op->timed_as.empty() ? node.op->name : node.op->timed_as);
  if (op != device.ops.end() && op->second.is_by_size()) {
    const double share = op->second.at(std::max(cost.flops / peak, from_memory));
    computing = cost.flops / (peak * share);
    moving = from_memory / share;
  } else if (op != device.ops.end()) {
    const double share = op->second.at(0);
    computing /= share;
    moving = std::max(moving, from_memory / share);  // a cache does not help an op that is slower than memory
  }
  return {device.launch_seconds + std::max(computing, moving),
          cost.flops,
          computing,
          moving,
          true,
          device.launch_seconds};
}

bool is_view(const Node& node) {
  return node.op->memory == OpRecord::Memory::kShared;
}

// The node that has computed a value; null for what comes into the graph.
const Node* maker(const Graph& graph, ValueId value) {
  for (;;) {
    const int number = graph.values[value].node;
    if (number < 0) return nullptr;
    const Node& node = graph.nodes[number];
    if (!is_view(node)) return &node;
    value = node.inputs[0];
  }
}

// Whether the device does the node at once with those before it: the same op in the same format, none of them
// made from another.
bool goes_along(const Graph& graph, const Node& node, const DeviceClass& device) {
  if (!device.at_once.contains(node.op->name)) return false;
  const Node* const begin = graph.nodes.data();
  const Node* before = &node;
  while (before != begin && is_view(before[-1])) --before;
  if (before == begin) return false;
  --before;
  if (before->op != node.op || format_of(graph, *before) != format_of(graph, node)) return false;
  for (; before->op == node.op || is_view(*before); --before) {
    for (const ValueId input : node.inputs) {
      if (maker(graph, input) == before) return false;
    }
    if (before == begin) break;
  }
  return true;
}

}  // namespace

void check_op_names(const DeviceClass& device, const OpTable& ops) {
  const auto expect_op = [&](std::string_view what, const std::string& op) {
    if (!ops.find(op))
      throw_error("the device class '{}' {} '{}', which is no op; {}", device.name, what, op,
                  suggestion(op, ops.names()));
  };
  for (const auto& [op, share] : device.ops) expect_op("has a share of the roofline for", op);
  for (const std::string& op : device.at_once) expect_op("does several at once of", op);
}

NodeTime node_time(const Graph& graph, const Node& node, const DeviceClass& device) {
  if (is_view(node)) return {};
  NodeTime time = time_of(graph, node, device, cost_of(graph, node));
  if (goes_along(graph, node, device)) {
    time.seconds = std::max(time.computing_seconds, time.moving_seconds);
    time.launches = false;
    time.launch_seconds = 0;
  }
  return time;
}

double part_seconds(const Graph& graph, const Node& node, const DeviceClass& device, double flops_share,
                    double bytes_share) {
  if (is_view(node)) return 0;
  const Cost cost = cost_of(graph, node);
  return time_of(graph, node, device, {cost.flops * flops_share, cost.bytes * bytes_share}).seconds;
}

}  // namespace trireme::sim

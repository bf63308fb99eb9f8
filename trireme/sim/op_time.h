// How long a node takes on a device, by its cost and the device's roofline:
//
//   launch + max(FLOPs / (peak · efficiency of the product), bytes / rate) / share of the op
//
// where the rate is what memory has for many bytes, or where that is less, what the device has for so many
// without the share. A share that was measured by size has efficiency and rates in it:
//
//   launch + max(FLOPs / peak, bytes / what memory has for many) / share at that size
//
// Nodes that the device does at once have one launch together.
//
// The efficiency is that of the class's grid at the product that the op comes to: as many rows and columns as
// its largest result has, and as deep as its FLOPs say. Where an op moves bytes, they decide.
#pragma once

#include "trireme/ir/graph.h"
#include "trireme/mesh/cluster.h"

namespace trireme::sim {

struct NodeTime {
  double seconds = 0;
  double flops = 0;
  // What the larger of was taken: arithmetic, and memory traffic.
  double computing_seconds = 0, moving_seconds = 0;
  bool launches = false;      // whether a launch is in it
  double launch_seconds = 0;  // that it is in it with, however little there is to do
};

// Throws an Error, with the nearest name, when the class has a share for what is no op, or does such at once.
void check_op_names(const DeviceClass& device, const OpTable& ops);
// Of a node of the graph that is no collective. A node that only looks at memory in another shape takes none.
NodeTime node_time(const Graph& graph, const Node& node, const DeviceClass& device);
// Of a rank that does these shares of a node's FLOPs and traffic, where others do the rest.
double part_seconds(const Graph& graph, const Node& node, const DeviceClass& device, double flops_share,
                    double bytes_share);

}  // namespace trireme::sim

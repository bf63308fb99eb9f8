// See products.h.
#include "trireme/ops/products.h"

#include <array>

namespace trireme {
namespace {

// Of the families of ops: all that begin so are products.
constexpr std::array<std::string_view, 3> kProducts = {"matmul", "conv2d", "attention"};

}  // namespace

double product_flops(const Graph& graph, const Node& node) {
  for (const std::string_view product : kProducts) {
    if (node.op->name.starts_with(product)) return cost_of(graph, node).flops;
  }
  return 0;
}

double product_flops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) flops += product_flops(graph, node);
  return flops;
}

}  // namespace trireme

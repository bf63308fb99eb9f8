// Each pattern looks at a node and at the maker of one of its inputs, replaces the later one by the fused
// node and removes the earlier one. The fused node stands at the later place, so everything it reads is
// there.
#include "trireme/passes/fuse.h"

#include <algorithm>

#include "trireme/ir/verify.h"
#include "trireme/passes/rewrite.h"

namespace trireme {
namespace {

class Fuser {
 public:
  Fuser(const Graph& graph, const OpTable& ops)
      : graph_(graph), ops_(ops), removed_(graph.nodes.size(), false), readers_(graph.readers()) {
    kept_.assign(graph.values.size(), false);
    for (const Update& update : graph.updates) kept_[update.value] = true;
    for (const Output& output : graph.outputs) kept_[output.value] = true;
  }

  Graph run() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      bias_into_matmul(n) || gelu_into_matmul(n) || residual_into_matmul(n) || dropout_into_sum(n) ||
          sum_into_norm(n) || squares_into_total(n);
    }
    return without_nodes(graph_, removed_);
  }

 private:
  Node& node(int n) { return graph_.nodes[n]; }
  bool is(int n, std::string_view op) const { return graph_.nodes[n].op->name == op; }

  // The matmul that makes `value` with the given epilogue, or −1.
  int matmul_making(ValueId value, std::string_view epilogue) const {
    const int n = graph_.values[value].node;
    if (n < 0 || removed_[n] || !is(n, "matmul") || graph_.nodes[n].outputs[0] != value) return -1;
    return graph_.nodes[n].attrs.text("epilogue", "none") == epilogue ? n : -1;
  }
  bool read_only_by(ValueId value, int n) const {
    return !kept_[value] && readers_[value] == std::vector<int>{n};
  }
  // Nobody reads `value` before node n, where it will be made after the fusion.
  bool not_read_before(ValueId value, int n) const {
    return readers_[value].empty() || readers_[value].front() >= n;
  }

  void replace(int n, int earlier, Node fused) {
    removed_[earlier] = true;
    for (ValueId output : fused.outputs) graph_.values[output].node = n;
    for (ValueId input : fused.inputs) {
      std::vector<int>& list = readers_[input];
      std::erase(list, earlier);
      if (std::ranges::find(list, n) == list.end()) list.insert(std::ranges::lower_bound(list, n), n);
    }
    graph_.nodes[n] = std::move(fused);
  }

  bool bias_into_matmul(int n) {
    if (!is(n, "add")) return false;
    const ValueId product = node(n).inputs[0], bias = node(n).inputs[1];
    const int m = matmul_making(product, "none");
    if (m < 0 || !read_only_by(product, n) || graph_.type(bias).shape.rank() != 1) return false;
    Node fused = node(m);
    fused.inputs.push_back(bias);
    fused.outputs = node(n).outputs;
    fused.attrs.set("epilogue", "bias");
    replace(n, m, std::move(fused));
    return true;
  }

  bool gelu_into_matmul(int n) {
    if (!is(n, "gelu")) return false;
    const ValueId pre = node(n).inputs[0];
    const int m = matmul_making(pre, "bias");
    if (m < 0 || !not_read_before(pre, n)) return false;
    Node fused = node(m);
    fused.outputs = {node(n).outputs[0], pre};
    fused.attrs.set("epilogue", "bias_gelu");
    std::erase(readers_[pre], n);
    replace(n, m, std::move(fused));
    return true;
  }

  bool residual_into_matmul(int n) {
    if (!is(n, "add") || graph_.type(node(n).inputs[0]) != graph_.type(node(n).inputs[1])) return false;
    for (int side : {0, 1}) {
      const ValueId product = node(n).inputs[side], residual = node(n).inputs[1 - side];
      if (product == residual || !read_only_by(product, n)) continue;
      const int plain = matmul_making(product, "none"), biased = matmul_making(product, "bias");
      if (plain < 0 && biased < 0) continue;
      Node fused = node(std::max(plain, biased));
      fused.inputs.push_back(residual);
      fused.outputs = node(n).outputs;
      fused.attrs.set("epilogue", plain >= 0 ? "residual" : "bias_residual");
      replace(n, std::max(plain, biased), std::move(fused));
      return true;
    }
    return false;
  }

  // A bias that was fused into a product stays there. Where the sum goes on into a norm, dropout and sum
  // together save more than sum and norm would.
  bool dropout_into_sum(int n) {
    if (!is(n, "add") || graph_.type(node(n).inputs[0]) != graph_.type(node(n).inputs[1])) return false;
    for (int side : {0, 1}) {
      const ValueId dropped = node(n).inputs[side], residual = node(n).inputs[1 - side];
      const int m = graph_.values[dropped].node;
      if (dropped == residual || m < 0 || removed_[m] || !is(m, "dropout") || !read_only_by(dropped, n))
        continue;
      Node fused = node(m);
      fused.op = &ops_.at("dropout_add");
      fused.inputs.push_back(residual);
      fused.outputs = node(n).outputs;
      replace(n, m, std::move(fused));
      bias_into_dropout(n);
      return true;
    }
    return false;
  }

  void bias_into_dropout(int n) {
    const ValueId biased = node(n).inputs[0];
    const int m = graph_.values[biased].node;
    if (m < 0 || removed_[m] || !is(m, "add") || !read_only_by(biased, n)) return;
    const ValueId bias = node(m).inputs[1];
    if (graph_.type(bias).shape.rank() != 1 || graph_.type(biased).shape.rank() < 1) return;
    Node fused = node(n);
    if (std::ranges::count(fused.inputs, biased) > 1) return;  // it is the residual as well
    fused.inputs[0] = node(m).inputs[0];
    fused.inputs.push_back(bias);
    replace(n, m, std::move(fused));
  }

  bool sum_into_norm(int n) {
    if (!is(n, "layer_norm") && !is(n, "rms_norm")) return false;
    const ValueId sum = node(n).inputs[0];
    const int m = graph_.values[sum].node;
    if (m < 0 || removed_[m] || !is(m, "add") || !not_read_before(sum, n)) return false;
    if (graph_.type(node(m).inputs[0]) != graph_.type(node(m).inputs[1])) return false;
    Node fused = node(n);
    if (std::ranges::count(fused.inputs, sum) > 1) return false;  // it would read what it makes
    fused.op = &ops_.at(is(n, "layer_norm") ? "add_layer_norm" : "add_rms_norm");
    fused.inputs.erase(fused.inputs.begin());
    fused.inputs.insert(fused.inputs.begin(), node(m).inputs.begin(), node(m).inputs.end());
    fused.outputs.insert(fused.outputs.begin(), sum);
    std::erase(readers_[sum], n);
    replace(n, m, std::move(fused));
    return true;
  }

  // The node of this op that makes `value` for node n alone, or −1.
  int made_for(int n, ValueId value, std::string_view op) const {
    const int m = graph_.values[value].node;
    return m >= 0 && !removed_[m] && is(m, op) && read_only_by(value, n) ? m : -1;
  }

  // A sum of squares joins the total of those before it, or another one.
  bool squares_into_total(int n) {
    if (!is(n, "add")) return false;
    const ValueId before = node(n).inputs[0], squares = node(n).inputs[1];
    const int one = made_for(n, squares, "sum_squares");
    int total = made_for(n, before, "total_squares");
    if (total < 0) total = made_for(n, before, "sum_squares");
    if (before == squares || one < 0 || total < 0) return false;
    const DType format = graph_.type(node(one).inputs[0]).dtype;
    if (graph_.type(node(total).inputs[0]).dtype != format) return false;
    constexpr size_t kMostIn16Bits = 12;  // so many tensors a kernel of 16 bits can widen, with room to spare
    if (format != DType::f32 && node(total).inputs.size() >= kMostIn16Bits) return false;
    Node fused{&ops_.at("total_squares"), node(total).inputs, node(n).outputs, {}};
    fused.inputs.push_back(node(one).inputs[0]);
    removed_[one] = true;
    std::erase(readers_[node(one).inputs[0]], one);
    replace(n, total, std::move(fused));
    return true;
  }

  Graph graph_;
  const OpTable& ops_;
  std::vector<bool> removed_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> kept_;  // outputs and updates
};

}  // namespace

Graph fuse(const Graph& graph, const OpTable& ops) {
  Graph result = Fuser(graph, ops).run();
  debug_verify(result);
  return result;
}

}  // namespace trireme

// Each pattern looks at a node and at the maker of one of its inputs, replaces the later one by the fused
// node and removes the earlier one. The fused node stands at the later place, so everything it reads is
// there.
#include "trireme/passes/fuse.h"

#include <algorithm>

#include "trireme/ir/verify.h"
#include "trireme/passes/node_joiner.h"

namespace trireme {
namespace {

class Fuser : NodeJoiner {
 public:
  using NodeJoiner::NodeJoiner;

  Graph run() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      bias_into_matmul(n) || gelu_into_matmul(n) || residual_into_matmul(n) || dropout_into_sum(n) ||
          sum_into_norm(n) || squares_into_total(n);
    }
    return result();
  }

 private:
  // The matmul that makes `value` with the given epilogue, or −1.
  int matmul_making(ValueId value, std::string_view epilogue) const {
    const int n = graph_.values[value].node;
    if (n < 0 || removed_[n] || !is(n, "matmul") || graph_.nodes[n].outputs[0] != value) return -1;
    return graph_.nodes[n].attrs.text("epilogue", "none") == epilogue ? n : -1;
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

  // Not where the residual is made behind the product, which would be put off until then, and what it reads
  // would stay: of a weight that is embedding and head, the gradient of all logits until the end of the step.
  bool residual_into_matmul(int n) {
    if (!is(n, "add") || graph_.type(node(n).inputs[0]) != graph_.type(node(n).inputs[1])) return false;
    for (int side : {0, 1}) {
      const ValueId product = node(n).inputs[side], residual = node(n).inputs[1 - side];
      if (product == residual || !read_only_by(product, n)) continue;
      const int plain = matmul_making(product, "none"), biased = matmul_making(product, "bias");
      const int m = std::max(plain, biased);
      if (m < 0 || graph_.values[residual].node > m) continue;
      Node fused = node(m);
      fused.inputs.push_back(residual);
      fused.outputs = node(n).outputs;
      fused.attrs.set("epilogue", plain >= 0 ? "residual" : "bias_residual");
      replace(n, m, std::move(fused));
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
    Node fused{&ops_.at("total_squares"), node(total).inputs, node(n).outputs, {}};
    fused.inputs.push_back(node(one).inputs[0]);
    removed_[one] = true;
    std::erase(readers_[node(one).inputs[0]], one);
    replace(n, total, std::move(fused));
    return true;
  }
};

}  // namespace

Graph fuse(const Graph& graph, const OpTable& ops) {
  Graph result = Fuser(graph, ops).run();
  debug_verify(result);
  return result;
}

}  // namespace trireme

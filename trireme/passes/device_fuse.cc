// See device_fuse.h and node_joiner.h.
#include "trireme/passes/device_fuse.h"

#include <algorithm>
#include <array>

#include "trireme/ir/verify.h"
#include "trireme/passes/node_joiner.h"

namespace trireme {
namespace {

constexpr int kParts = 3;  // q, k and v

class DeviceFuser : NodeJoiner {
 public:
  DeviceFuser(const Graph& graph, const OpTable& ops, const GainQuery& gains)
      : NodeJoiner(graph, ops), gains_(gains) {}

  Graph run() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (removed_[n]) continue;
      pack_attention(n) || loss_into_its_gradient(n) || sum_into_norm_gradient(n) ||
          gelu_gradient_into_matmul(n) || cast_into_matmul(n) || sum_into_matmul(n) ||
          weight_into_its_update(n) || relu_into_norm(n) || relu_gradient_into_norm_gradient(n);
    }
    return result();
  }

 private:
  bool join(int n, int earlier, Node joined) {
    if (!gains_(graph_, joined)) return false;
    replace(n, earlier, std::move(joined));
    return true;
  }

  // Loss and count are made where the gradient is, so nobody may want them sooner.
  bool loss_into_its_gradient(int n) {
    if (!is(n, "cross_entropy_grad")) return false;
    const ValueId lse = node(n).inputs[3];
    const int m = made_for(n, lse, "cross_entropy");
    if (m < 0 || node(m).outputs[2] != lse || node(m).inputs[0] != node(n).inputs[1] ||
        node(m).inputs[1] != node(n).inputs[2] || node(m).attrs != node(n).attrs)
      return false;
    const ValueId loss = node(m).outputs[0], count = node(m).outputs[1];
    if (!not_read_before(loss, n) || !not_read_before(count, n)) return false;
    return join(n, m,
                {&ops_.at("cross_entropy_with_grad"),
                 {node(m).inputs[0], node(m).inputs[1], node(n).inputs[0]},
                 {node(n).outputs[0], loss, count},
                 node(m).attrs});
  }

  // The node that adds up all rows of `value`, as a bias' gradient does, or −1.
  int sum_over_rows(ValueId value) const {
    std::vector<int64_t> rows;
    for (int dim = 0; dim + 1 < graph_.type(value).shape.rank(); ++dim) rows.push_back(dim);
    for (int reader : readers_[value]) {
      if (is(reader, "sum") && node(reader).attrs.integers("dims") == rows) return reader;
    }
    return -1;
  }

  // A bias' gradient that is the sum over rows of what layer_norm_grad_add makes goes into it; the models
  // with rms_norm have no biases.
  bool sum_into_norm_gradient(int n) {
    if (!is(n, "add") || graph_.type(node(n).inputs[0]) != graph_.type(node(n).inputs[1])) return false;
    for (int side : {0, 1}) {
      const ValueId dx = node(n).inputs[side], more = node(n).inputs[1 - side];
      const int layer = made_for(n, dx, "layer_norm_grad"),
                m = layer >= 0 ? layer : made_for(n, dx, "rms_norm_grad");
      if (dx == more || m < 0 || node(m).outputs[0] != dx) continue;
      const auto read_before = [&](ValueId result) { return !not_read_before(result, n); };
      if (std::any_of(node(m).outputs.begin() + 1, node(m).outputs.end(), read_before)) continue;
      const int sum = layer >= 0 ? sum_over_rows(node(n).outputs[0]) : -1;
      if (layer >= 0 && sum < 0) continue;
      Node joined{&ops_.at(layer >= 0 ? "layer_norm_grad_add" : "rms_norm_grad_add"),
                  node(m).inputs,
                  node(m).outputs,
                  {}};
      joined.inputs.push_back(more);
      joined.outputs[0] = node(n).outputs[0];
      if (sum >= 0) joined.outputs.push_back(node(sum).outputs[0]);
      if (!join(n, m, std::move(joined))) return false;
      if (sum >= 0) remove(sum);
      return true;
    }
    return false;
  }

  bool gelu_gradient_into_matmul(int n) {
    if (!is(n, "gelu_grad")) return false;
    const int m = made_for(n, node(n).inputs[0], "matmul");
    if (m < 0 || node(m).attrs.has("epilogue") || node(n).inputs[0] == node(n).inputs[1]) return false;
    Node joined{&ops_.at("matmul_gelu_grad"), node(m).inputs, node(n).outputs, node(m).attrs};
    joined.inputs.push_back(node(n).inputs[1]);
    return join(n, m, std::move(joined));
  }

  // Gradients of weights are kept and added up in f32.
  bool cast_into_matmul(int n) {
    if (!is(n, "cast") || graph_.type(node(n).outputs[0]).dtype != DType::f32) return false;
    const int m = made_for(n, node(n).inputs[0], "matmul");
    if (!is_plain(m)) return false;
    return join(n, m, {&ops_.at("matmul_to_f32"), node(m).inputs, node(n).outputs, node(m).attrs});
  }
  bool sum_into_matmul(int n) {
    if (!is(n, "add") || graph_.type(node(n).inputs[0]) != graph_.type(node(n).inputs[1])) return false;
    for (int side : {1, 0}) {
      const int m = made_for(n, node(n).inputs[side], "matmul_to_f32");
      if (!is_plain(m) || node(n).inputs[0] == node(n).inputs[1]) continue;
      Node joined{&ops_.at("matmul_to_f32"), node(m).inputs, node(n).outputs, node(m).attrs};
      joined.inputs.push_back(node(n).inputs[1 - side]);
      joined.attrs.set("epilogue", "residual");
      return join(n, m, std::move(joined));
    }
    return false;
  }

  // What the state of the weight becomes is made by the cast, what that of its master by the update.
  bool weight_into_its_update(int n) {
    if (!is(n, "cast")) return false;
    const int m = made_by(node(n).inputs[0], "adam");
    if (m < 0 || node(m).outputs[0] != node(n).inputs[0] ||
        graph_.type(node(n).outputs[0]) != graph_.type(node(m).inputs[1]))
      return false;
    Node joined{&ops_.at("adam_rounded"), node(m).inputs, node(m).outputs, node(m).attrs};
    for (ValueId output : joined.outputs) {
      if (!not_read_before(output, n)) return false;
    }
    joined.outputs.push_back(node(n).outputs[0]);
    return join(n, m, std::move(joined));
  }

  bool is_plain(int n) const { return n >= 0 && !node(n).attrs.has("epilogue"); }

  // The norm behind which the relu at n takes the place of the node that reads it.
  bool join_relu(int n, int norm, const char* epilogue, std::span<const ValueId> more) {
    Node joined = node(norm);
    for (size_t i = 1; i < joined.outputs.size(); ++i) {
      if (!not_read_before(joined.outputs[i], n)) return false;
    }
    joined.outputs[0] = node(n).outputs[0];
    joined.inputs.insert(joined.inputs.end(), more.begin(), more.end());
    joined.attrs.set("epilogue", epilogue);
    return join(n, norm, std::move(joined));
  }
  bool relu_into_norm(int n) {
    if (!is(n, "relu")) return false;
    const ValueId x = node(n).inputs[0];
    if (const int norm = made_for(n, x, "batch_norm_nhwc"); is_plain(norm))
      return join_relu(n, norm, "relu", {});
    const int sum = made_for(n, x, "add");
    if (sum < 0) return false;
    const std::vector<ValueId> addends = node(sum).inputs;
    if (addends[0] == addends[1] || graph_.type(addends[0]) != graph_.type(addends[1])) return false;
    for (int side : {0, 1}) {
      const int norm = made_for(sum, addends[side], "batch_norm_nhwc");
      if (!is_plain(norm)) continue;
      if (!join_relu(n, norm, "add_relu", {&addends[1 - side], 1})) return false;
      remove(sum);
      return true;
    }
    return false;
  }

  // The sum's gradient, which others may read as well, is made by the first norm's gradient that reads it.
  bool relu_gradient_into_norm_gradient(int n) {
    if (!is(n, "batch_norm_nhwc_grad") || !is_plain(n)) return false;
    const ValueId ds = node(n).inputs[0];
    const int slope = made_by(ds, "relu_grad");
    if (slope < 0 || kept_[ds] || !not_read_before(ds, n)) return false;
    const ValueId dz = node(slope).inputs[0], z = node(slope).inputs[1];
    Node joined = node(n);
    joined.inputs[0] = dz;
    const int norm = made_by(z, "batch_norm_nhwc");
    if (read_only_by(ds, n) && norm >= 0 && node(norm).attrs.text("epilogue", "none") == "relu" &&
        node(norm).inputs[0] == node(n).inputs[1]) {
      joined.inputs.push_back(node(norm).inputs[2]);
      joined.attrs.set("epilogue", "relu");
      if (!join(n, slope, std::move(joined))) return false;
      std::erase(readers_[z], slope);
      return true;
    }
    joined.inputs.push_back(z);
    joined.outputs.push_back(ds);
    joined.attrs.set("epilogue", "add_relu");
    const int sum = made_for(slope, dz, "add");
    const bool of_two = sum >= 0 && graph_.type(node(sum).inputs[0]) == graph_.type(node(sum).inputs[1]);
    if (of_two) {
      joined.inputs[0] = node(sum).inputs[0];
      joined.inputs.push_back(node(sum).inputs[1]);
    }
    if (!gains_(graph_, joined)) return false;
    std::erase(readers_[ds], n);
    if (of_two) remove(sum);
    replace(n, slope, std::move(joined));
    return true;
  }

  // The parts of one tensor, each under the shape in which it is used, and by `users` alone.
  struct Split {
    int node;
    std::array<int, kParts> reshapes;
  };
  bool find_split(std::span<const ValueId> parts, const std::vector<int>& users, Split& found) const {
    found.node = -1;
    for (int i = 0; i < kParts; ++i) {
      const int reshape = made_by(parts[i], "reshape");
      if (reshape < 0 || !read_only_by(parts[i], users)) return false;
      const ValueId part = node(reshape).inputs[0];
      const int split = made_for(reshape, part, "split");
      if (split < 0 || (i > 0 && split != found.node) || node(split).outputs.size() != kParts ||
          node(split).outputs[i] != part)
        return false;
      found.node = split;
      found.reshapes[i] = reshape;
    }
    const Node& split = node(found.node);
    const std::vector<int64_t>& sizes = split.attrs.integers("sizes");
    return graph_.type(split.inputs[0]).shape.rank() == 3 && split.attrs.integer("dim") == 2 &&
           sizes[0] == sizes[1] && sizes[1] == sizes[2];
  }

  // The concat of what `node` makes, under other shapes, or −1.
  int find_concat(const Node& maker, std::array<int, kParts>& reshapes) const {
    int concat = -1;
    for (int i = 0; i < kParts; ++i) {
      const std::vector<int>& readers = readers_[maker.outputs[i]];
      if (kept_[maker.outputs[i]] || readers.size() != 1 || !is(readers[0], "reshape")) return -1;
      const ValueId part = node(readers[0]).outputs[0];
      if (kept_[part] || readers_[part].size() != 1) return -1;
      const int reader = readers_[part][0];
      if (!is(reader, "concat") || (i > 0 && reader != concat) || node(reader).inputs.size() != kParts ||
          node(reader).inputs[i] != part)
        return -1;
      concat = reader;
      reshapes[i] = readers[0];
    }
    const bool last =
        graph_.type(node(concat).outputs[0]).shape.rank() == 3 && node(concat).attrs.integer("dim") == 2;
    return last ? concat : -1;
  }

  // Forward and, where it is there, backward: both read q, k and v.
  bool pack_attention(int n) {
    if (!is(n, "attention")) return false;
    const std::vector<ValueId> parts = node(n).inputs;
    const ValueId o = node(n).outputs[0], lse = node(n).outputs[1];
    const Shape& q = graph_.type(parts[0]).shape;
    std::vector<int> users = readers_[parts[0]];
    if (users.size() > 2 || q[3] != 1 || graph_.type(parts[1]).shape[1] != q[1]) return false;
    Split split;
    if (!find_split(parts, users, split)) return false;
    const ValueId qkv = node(split.node).inputs[0];
    Attrs attrs = node(n).attrs;
    attrs.set("width", q[4]);
    Node packed{&ops_.at("attention_packed"), {qkv}, {o, lse}, attrs};
    if (!gains_(graph_, packed)) return false;
    if (users.size() == 2) {
      const int gradient = users[1];
      const Node& back = node(gradient);
      std::array<int, kParts> reshapes;
      if (users[0] != n || !is(gradient, "attention_grad") || back.inputs[1] != parts[0] ||
          back.inputs[2] != parts[1] || back.inputs[3] != parts[2] || back.inputs[4] != o ||
          back.inputs[5] != lse)
        return false;
      const int concat = find_concat(back, reshapes);
      if (concat < 0) return false;
      Node packed_gradient{
          &ops_.at("attention_packed_grad"), {back.inputs[0], qkv, o, lse}, node(concat).outputs, attrs};
      for (int reshape : reshapes) remove(reshape);
      remove(gradient);
      replace(concat, gradient, std::move(packed_gradient));
    }
    for (int reshape : split.reshapes) remove(reshape);
    replace(n, split.node, std::move(packed));
    return true;
  }

  const GainQuery& gains_;
};

}  // namespace

Graph fused_for_device(const Graph& graph, const OpTable& ops, const GainQuery& gains) {
  Graph result = DeviceFuser(graph, ops, gains).run();
  debug_verify(result);
  return result;
}

}  // namespace trireme

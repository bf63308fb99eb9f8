// See composed.h. Temporaries lie one after another in the workspace, and behind them that of the part which
// wants most.
#include "trireme/kernels/composed.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// q, k and v of qkv[b t (3 g d)] as one tensor each, and as attention takes them.
struct PackedParts {
  TensorType part;      // [b t (g d)]
  Shape queries, keys;  // [b t g 1 d], [b t g d]
  Attrs split, attention;

  PackedParts(const TensorType& qkv, const Attrs& attrs) : attention(attrs) {
    const int64_t b = qkv.shape[0], t = qkv.shape[1], all = qkv.shape[2] / 3, d = attrs.integer("width");
    part = {qkv.dtype, {b, t, all}};
    queries = {b, t, all / d, 1, d};
    keys = {b, t, all / d, d};
    split.set("dim", int64_t{2});
    split.set("sizes", std::vector<int64_t>{all, all, all});
    attention.erase("width");
  }
};

Composition attention_packed(const KernelShape& s) {
  const PackedParts x(s.inputs[0], s.attrs);
  // 0: qkv; 1 and 2: o and lse; from 3 on q, k and v.
  return {{x.part, x.part, x.part},
          {{"split", {{0}}, {{3}, {4}, {5}}, x.split},
           {"attention", {{3, x.queries}, {4, x.keys}, {5, x.keys}}, {{1}, {2}}, x.attention}}};
}

Composition attention_packed_grad(const KernelShape& s) {
  const PackedParts x(s.inputs[1], s.attrs);
  // 0 to 3: do, qkv, o, lse; 4: dqkv; from 5 on q, k, v and their gradients.
  return {{x.part, x.part, x.part, x.part, x.part, x.part},
          {{"split", {{1}}, {{5}, {6}, {7}}, x.split},
           {"attention_grad",
            {{0}, {5, x.queries}, {6, x.keys}, {7, x.keys}, {2}, {3}},
            {{8, x.queries}, {9, x.keys}, {10, x.keys}},
            x.attention},
           {"concat", {{8}, {9}, {10}}, {{4}}, {{"dim", int64_t{2}}}}}};
}

Composition cross_entropy_with_grad(const KernelShape& s) {
  // 0 to 2: logits, targets, dloss; 3 to 5: dlogits, loss, count; 6: lse.
  return {{{DType::f32, s.inputs[1].shape}},
          {{"cross_entropy", {{0}, {1}}, {{4}, {5}, {6}}, s.attrs},
           {"cross_entropy_grad", {{2}, {0}, {1}, {6}}, {{3}}, s.attrs}}};
}

Composition layer_norm_grad_add(const KernelShape& s) {
  // 0 to 5: dy, x, gain, mean, rstd, more; 6 to 9: dx, dgain, dbias, total; 10: dx alone.
  std::vector<int64_t> rows;
  for (int dim = 0; dim + 1 < s.inputs[0].shape.rank(); ++dim) rows.push_back(dim);
  return {{s.inputs[0]},
          {{"layer_norm_grad", {{0}, {1}, {2}, {3}, {4}}, {{10}, {7}, {8}}},
           {"add", {{5}, {10}}, {{6}}},
           {"sum", {{6}}, {{9}}, {{"dims", rows}}}}};
}

Composition matmul_gelu_grad(const KernelShape& s) {
  // 0 to 2: a, b, x; 3: y; 4: the product.
  return {{s.outputs[0]}, {{"matmul", {{0}, {1}}, {{4}}, s.attrs}, {"gelu_grad", {{4}, {2}}, {{3}}}}};
}

constexpr ComposedOp kComposedOps[] = {{"attention_packed", attention_packed},
                                       {"attention_packed_grad", attention_packed_grad},
                                       {"cross_entropy_with_grad", cross_entropy_with_grad},
                                       {"layer_norm_grad_add", layer_norm_grad_add},
                                       {"matmul_gelu_grad", matmul_gelu_grad}};

template <typename Operand>
const Kernel& kernel_of(const KernelTable& table, std::string_view op, std::span<const Operand> inputs) {
  const auto number = std::ranges::find_if(inputs, [](const Operand& one) { return is_float(one.dtype); });
  TRIREME_CHECK(number != inputs.end());
  const Kernel* kernel = table.find(op, number->dtype);
  TRIREME_CHECK(kernel != nullptr);
  return *kernel;
}

// All operands of the op, then the temporaries.
std::vector<TensorType> all_types(const KernelShape& shape, const Composition& parts) {
  std::vector<TensorType> all(shape.inputs.begin(), shape.inputs.end());
  all.insert(all.end(), shape.outputs.begin(), shape.outputs.end());
  all.insert(all.end(), parts.temporaries.begin(), parts.temporaries.end());
  return all;
}

template <typename Value>
std::vector<Value> chosen(const std::vector<Value>& all, const std::vector<Composition::Operand>& operands) {
  std::vector<Value> result;
  for (const Composition::Operand& operand : operands) {
    result.push_back(all[static_cast<size_t>(operand.value)]);
    if (operand.shape) result.back().shape = *operand.shape;
  }
  return result;
}

}  // namespace

std::span<const ComposedOp> composed_ops() {
  return kComposedOps;
}

size_t composed_workspace(const KernelShape& shape, const Composition& parts, const KernelTable& table) {
  size_t temporaries = 0, largest = 0;
  for (const TensorType& type : parts.temporaries) temporaries += aligned(type.bytes());
  const std::vector<TensorType> all = all_types(shape, parts);
  for (const Composition::Call& call : parts.calls) {
    const std::vector<TensorType> inputs = chosen(all, call.inputs), outputs = chosen(all, call.outputs);
    const Kernel& kernel = kernel_of<TensorType>(table, call.op, inputs);
    largest = std::max(largest, kernel.workspace({inputs, outputs, call.attrs, shape.threads}));
  }
  return temporaries + largest;
}

void run_composed(const KernelContext& context, const Composition& parts, const KernelTable& table) {
  std::vector<TensorView> all(context.inputs.begin(), context.inputs.end());
  all.insert(all.end(), context.outputs.begin(), context.outputs.end());
  std::byte* free = context.workspace;
  for (const TensorType& type : parts.temporaries) {
    all.push_back({free, type.dtype, type.shape});
    free += aligned(type.bytes());
  }
  for (const Composition::Call& call : parts.calls) {
    const std::vector<TensorView> inputs = chosen(all, call.inputs), outputs = chosen(all, call.outputs);
    kernel_of<TensorView>(table, call.op, inputs)
        .launch({inputs, outputs, call.attrs, context.device, free, context.communicator});
  }
}

}  // namespace trireme

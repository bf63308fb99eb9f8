// See composed.h. Temporaries lie one after another in the workspace, and behind them that of the part which
// wants most.
#include "trireme/kernels/composed.h"

#include <algorithm>

#include "trireme/ir/channels_last.h"
#include "trireme/ir/map_code.h"

namespace trireme {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Composition adam_rounded(const KernelShape& s) {
  // 0 to 6: w, g, m, v, lr, scale, step; 7 to 10: the new w, m and v, and w rounded.
  return {{},
          {{"adam", {{0}, {1}, {2}, {3}, {4}, {5}, {6}}, {{7}, {8}, {9}}, s.attrs},
           {"cast", {{7}}, {{10}}, {{"to", std::string(name(s.outputs[3].dtype))}}}}};
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

Composition rms_norm_grad_add(const KernelShape& s) {
  // 0 to 4: dy, x, gain, rstd, more; 5 and 6: dx, dgain; 7: dx alone.
  return {{s.inputs[0]}, {{"rms_norm_grad", {{0}, {1}, {2}, {3}}, {{7}, {6}}}, {"add", {{4}, {7}}, {{5}}}}};
}

// Instruction by instruction. Results are copied out at the end: they may lie over inputs, which later
// instructions read.
Composition map(const KernelShape& s) {
  const int inputs = static_cast<int>(s.inputs.size()), outputs = static_cast<int>(s.outputs.size());
  const MapCode code = MapCode::of(s.attrs, inputs);
  const auto place = [&](int operand) { return operand < inputs ? operand : operand + outputs; };
  Composition parts{std::vector<TensorType>(code.instructions.size(), s.outputs[0]), {}};
  for (const MapCode::Instruction& one : code.instructions) {
    Composition::Call call{
        one.op, {}, {{inputs + outputs + static_cast<int>(parts.calls.size())}}, one.attrs};
    for (int operand : one.operands) call.inputs.push_back({place(operand)});
    parts.calls.push_back(std::move(call));
  }
  std::vector<int64_t> as_it_is;
  for (int dim = 0; dim < s.outputs[0].shape.rank(); ++dim) as_it_is.push_back(dim);
  for (int o = 0; o < outputs; ++o)
    parts.calls.push_back(
        {"transpose", {{place(code.results[static_cast<size_t>(o)])}}, {{inputs + o}}, {{"perm", as_it_is}}});
  return parts;
}

Composition matmul_gelu_grad(const KernelShape& s) {
  // 0 to 2: a, b, x; 3: y; 4: the product.
  return {{s.outputs[0]}, {{"matmul", {{0}, {1}}, {{4}}, s.attrs}, {"gelu_grad", {{4}, {2}}, {{3}}}}};
}

Composition matmul_to_f32(const KernelShape& s) {
  // 0 and 1: a, b; 2: where given, what is added; then y, the product and the product in f32.
  Attrs attrs = s.attrs;
  attrs.erase("epilogue");
  const int y = static_cast<int>(s.inputs.size()), product = y + 1, wide = y + 2;
  const Attrs to_f32{{"to", std::string("f32")}};
  const TensorType narrow{s.inputs[0].dtype, s.outputs[0].shape};
  if (y == 2)
    return {{narrow}, {{"matmul", {{0}, {1}}, {{product}}, attrs}, {"cast", {{product}}, {{y}}, to_f32}}};
  return {{narrow, s.outputs[0]},
          {{"matmul", {{0}, {1}}, {{product}}, attrs},
           {"cast", {{product}}, {{wide}}, to_f32},
           {"add", {{2}, {wide}}, {{y}}}}};
}

// An op on images with channels last, by way of the op with channels first: what has four dims is turned, the
// op is done, and what it made is turned back.
class ByChannelsFirst {
 public:
  explicit ByChannelsFirst(const KernelShape& s) : shape_(s) {}

  int temporary(TensorType type) {
    parts_.temporaries.push_back(std::move(type));
    return static_cast<int>(shape_.inputs.size() + shape_.outputs.size() + parts_.temporaries.size()) - 1;
  }
  void call(Composition::Call call) { parts_.calls.push_back(std::move(call)); }
  int output(int number) const { return static_cast<int>(shape_.inputs.size()) + number; }

  // `op` on these of the inputs, or values made before; its results go to these values.
  void turned(std::string_view op, const std::vector<int>& inputs, const std::vector<int>& outputs,
              const Attrs& attrs) {
    Composition::Call main{std::string(op), {}, {}, attrs};
    std::vector<Composition::Call> after;
    for (int value : inputs) {
      if (is_image(value)) {
        const int first = temporary(first_of(value));
        call({"transpose", {{value}}, {{first}}, {{"perm", perm_to_channels_first()}}});
        value = first;
      }
      main.inputs.push_back({value});
    }
    for (int value : outputs) {
      if (is_image(value)) {
        const int first = temporary(first_of(value));
        after.push_back({"transpose", {{first}}, {{value}}, {{"perm", perm_to_channels_last()}}});
        value = first;
      }
      main.outputs.push_back({value});
    }
    call(std::move(main));
    for (Composition::Call& one : after) call(std::move(one));
  }
  Composition take() { return std::move(parts_); }

 private:
  TensorType type(int value) const {
    const int inputs = static_cast<int>(shape_.inputs.size()),
              outputs = static_cast<int>(shape_.outputs.size());
    return value < inputs             ? shape_.inputs[static_cast<size_t>(value)]
           : value < inputs + outputs ? shape_.outputs[static_cast<size_t>(value - inputs)]
                                      : parts_.temporaries[static_cast<size_t>(value - inputs - outputs)];
  }
  bool is_image(int value) const { return type(value).shape.rank() == 4; }
  TensorType first_of(int value) const { return {type(value).dtype, channels_first(type(value).shape)}; }

  const KernelShape& shape_;
  Composition parts_;
};

// All inputs, all outputs, nothing beside.
Composition turned_whole(const KernelShape& s, std::string_view op) {
  ByChannelsFirst by(s);
  std::vector<int> inputs, outputs;
  for (size_t i = 0; i < s.inputs.size(); ++i) inputs.push_back(static_cast<int>(i));
  for (size_t i = 0; i < s.outputs.size(); ++i) outputs.push_back(by.output(static_cast<int>(i)));
  by.turned(op, inputs, outputs, s.attrs);
  return by.take();
}

Composition conv2d_nhwc(const KernelShape& s) {
  return turned_whole(s, "conv2d");
}
Composition conv2d_nhwc_grad_input(const KernelShape& s) {
  return turned_whole(s, "conv2d_grad_input");
}
Composition conv2d_nhwc_grad_weight(const KernelShape& s) {
  return turned_whole(s, "conv2d_grad_weight");
}
Composition max_pool2d_nhwc(const KernelShape& s) {
  return turned_whole(s, "max_pool2d");
}
Composition max_pool2d_nhwc_grad(const KernelShape& s) {
  return turned_whole(s, "max_pool2d_grad");
}

Composition batch_norm_nhwc(const KernelShape& s) {
  const std::string_view epilogue = s.attrs.text("epilogue", "none");
  if (epilogue == "none") return turned_whole(s, "batch_norm");
  ByChannelsFirst by(s);
  Attrs attrs = s.attrs;
  attrs.erase("epilogue");
  int before_relu = by.temporary(s.outputs[0]);
  by.turned("batch_norm", {0, 1, 2, 3, 4},
            {before_relu, by.output(1), by.output(2), by.output(3), by.output(4)}, attrs);
  if (epilogue == "add_relu") {
    const int sum = by.temporary(s.outputs[0]);
    by.call({"add", {{before_relu}, {5}}, {{sum}}});
    before_relu = sum;
  }
  by.call({"relu", {{before_relu}}, {{by.output(0)}}});
  return by.take();
}

// The norm's result again, as far as relu looks at it: (x − mean) · (rstd · gain) + bias in f32, rounded.
int norm_again(ByChannelsFirst& by, const KernelShape& s) {
  const TensorType wide{DType::f32, s.inputs[1].shape}, channel{DType::f32, s.inputs[2].shape};
  const auto made = [&](std::string_view op, std::vector<Composition::Operand> inputs, const TensorType& type,
                        const Attrs& attrs = {}) {
    const int value = by.temporary(type);
    by.call({std::string(op), std::move(inputs), {{value}}, attrs});
    return value;
  };
  const Attrs to_f32{{"to", std::string("f32")}};
  const Shape& c = channel.shape;
  const int scale = made("mul", {{4, c}, {made("cast", {{2}}, channel, to_f32)}}, channel);
  const int off = made("sub", {{made("cast", {{1}}, wide, to_f32)}, {3, c}}, wide);
  const int norm =
      made("add", {{made("mul", {{off}, {scale}}, wide)}, {made("cast", {{5}}, channel, to_f32)}}, wide);
  return made("cast", {{norm}}, s.inputs[1], {{"to", std::string(name(s.inputs[1].dtype))}});
}

Composition batch_norm_nhwc_grad(const KernelShape& s) {
  const std::string_view epilogue = s.attrs.text("epilogue", "none");
  if (epilogue == "none") return turned_whole(s, "batch_norm_grad");
  ByChannelsFirst by(s);
  int ds, dz = 0;
  if (epilogue == "relu") {
    ds = by.temporary(s.inputs[0]);
    by.call({"relu_grad", {{0}, {norm_again(by, s)}}, {{ds}}});
  } else {
    constexpr size_t kMore = 6;
    if (s.inputs.size() > kMore) {
      dz = by.temporary(s.inputs[0]);
      by.call({"add", {{0}, {static_cast<int>(kMore)}}, {{dz}}});
    }
    ds = by.output(3);
    by.call({"relu_grad", {{dz}, {5}}, {{ds}}});
  }
  by.turned("batch_norm_grad", {ds, 1, 2, 3, 4}, {by.output(0), by.output(1), by.output(2)}, {});
  return by.take();
}

constexpr ComposedOp kComposedOps[] = {{"adam_rounded", adam_rounded},
                                       {"attention_packed", attention_packed},
                                       {"attention_packed_grad", attention_packed_grad},
                                       {"batch_norm_nhwc", batch_norm_nhwc},
                                       {"batch_norm_nhwc_grad", batch_norm_nhwc_grad},
                                       {"conv2d_nhwc", conv2d_nhwc},
                                       {"conv2d_nhwc_grad_input", conv2d_nhwc_grad_input},
                                       {"conv2d_nhwc_grad_weight", conv2d_nhwc_grad_weight},
                                       {"cross_entropy_with_grad", cross_entropy_with_grad},
                                       {"layer_norm_grad_add", layer_norm_grad_add},
                                       {"map", map},
                                       {"matmul_gelu_grad", matmul_gelu_grad},
                                       {"matmul_to_f32", matmul_to_f32},
                                       {"max_pool2d_nhwc", max_pool2d_nhwc},
                                       {"max_pool2d_nhwc_grad", max_pool2d_nhwc_grad},
                                       {"rms_norm_grad_add", rms_norm_grad_add}};

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

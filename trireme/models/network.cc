// Layers shared by the models; see network.h.
#include "trireme/models/network.h"

#include <cmath>

#include "trireme/base/error.h"
#include "trireme/ops/attributes.h"

namespace trireme {
namespace {

std::string_view kind_name(Init::Kind kind) {
  switch (kind) {
    case Init::Kind::kZeros:
      return "zeros";
    case Init::Kind::kOnes:
      return "ones";
    case Init::Kind::kNormal:
      return "normal";
    case Init::Kind::kUniform:
      return "uniform";
  }
  return "";
}

Attrs tensor_attrs(const TensorSplit& split, int64_t dim) {
  Attrs attrs;
  if (split.side == TensorSplit::Side::kNone) return attrs;
  attrs.set("tensor_dim", dim);
  if (split.unit != 1) attrs.set("tensor_unit", split.unit);
  if (split.blocks != 1) attrs.set("tensor_blocks", split.blocks);
  return attrs;
}

}  // namespace

std::string adapter_name(std::string_view layer, char which) {
  return fmt::format("{}.lora_{}.weight", layer, which);
}

bool is_adapter_name(std::string_view parameter) {
  return parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
}

ValueId Network::state(const std::string& name, const Shape& shape, Init init, Role role, Attrs more) {
  const ValueId known = builder_.find(name);
  if (known != kNoValue) {
    const Value& value = builder_.graph().values[known];
    if (value.kind != Value::Kind::kState || value.role != role)
      throw_error("the model has '{}' already, as something else than {}; give one of them another name",
                  name, role == Role::kParameter ? "a parameter" : "a buffer");
    if (builder_.shape(known) != shape)
      throw_error(
          "the model has '{}' with the shape {} already, and asks for it with {}; give one of them another "
          "name",
          name, to_string(builder_.shape(known)), to_string(shape));
    return known;
  }
  for (const int64_t extent : shape) {
    if (extent < 1)
      throw_error("'{}' of the model is {}; every dim must be 1 or more", name, to_string(shape));
  }
  Attrs attrs{{"init", std::string(kind_name(init.kind))}};
  if (init.scale != 0) attrs.set("scale", init.scale);
  for (const auto& [key, value] : more.items()) attrs.set(key, value);
  const ValueId value = builder_.state(name, {DType::f32, shape}, role, std::move(attrs));
  if (role == Role::kParameter) parameters_.push_back(value);
  return value;
}

ValueId Network::op(std::string_view name, std::vector<ValueId> inputs, Attrs attrs) {
  return node(name, std::move(inputs), std::move(attrs))[0];
}
std::vector<ValueId> Network::node(std::string_view name, std::vector<ValueId> inputs, Attrs attrs) {
  check_attributes(name, attrs);
  return builder_.node(name, std::move(inputs), std::move(attrs));
}

ValueId Network::parameter(const std::string& name, const Shape& shape, Init init, Attrs more) {
  return state(name, shape, init, Role::kParameter, std::move(more));
}
ValueId Network::table(const std::string& name, int64_t rows, int64_t width, Init init) {
  return parameter(name, {rows, width}, init, {{"tensor_dim", int64_t{0}}});
}
ValueId Network::buffer(const std::string& name, const Shape& shape, Init init, Attrs more) {
  return state(name, shape, init, Role::kBuffer, std::move(more));
}

ValueId Network::reshape(ValueId x, const Shape& to) {
  return op("reshape", {x}, {{"shape", std::vector<int64_t>(to.begin(), to.end())}});
}

ValueId Network::flatten(ValueId x) {
  const Builder::Scope layer = scope("flatten");
  const Shape from = shape(x);
  return reshape(x, {from[0], from.elements(1, from.rank())});
}

std::vector<ValueId> Network::split(ValueId x, int64_t dim, const std::vector<int64_t>& sizes) {
  return builder_.node("split", {x}, {{"dim", dim}, {"sizes", sizes}});
}

ValueId Network::linear(ValueId x, const std::string& name, int64_t outputs, Store store, Init init,
                        Bias bias, const TensorSplit& split) {
  const Builder::Scope layer = scope(name);
  const int64_t inputs = shape(x).back();
  const bool in_out = store == Store::kInOut;
  const bool by_outputs = split.side == TensorSplit::Side::kOutputs;
  const ValueId weight = parameter(name + ".weight", in_out ? Shape{inputs, outputs} : Shape{outputs, inputs},
                                   init, tensor_attrs(split, in_out == by_outputs ? 1 : 0));
  Attrs attrs;
  if (!in_out) attrs.set("transpose_b", int64_t{1});
  ValueId y = op("matmul", {x, weight}, attrs);
  linear_layers_.push_back(name);
  if (adapters_.rank > 0 && adapters_.fits(name)) y = op("add", {y, adapter(x, name, outputs, store, split)});
  if (bias == Bias::kNone) return y;
  const Init start =
      bias == Bias::kZeros ? Init::zeros() : Init::uniform(1 / std::sqrt(static_cast<double>(inputs)));
  // Where inputs are split, the bias is added to the sum, once.
  return op("add",
            {y, parameter(name + ".bias", {outputs}, start, by_outputs ? tensor_attrs(split, 0) : Attrs())});
}

// Lies as its weight does: the factor that has the dim that is split is split the same way, the other is
// whole.
ValueId Network::adapter(ValueId x, const std::string& name, int64_t outputs, Store store,
                         const TensorSplit& split) {
  const Builder::Scope part(builder_, "lora");
  const int64_t inputs = shape(x).back();
  const auto attrs_of = [&](TensorSplit::Side side, int64_t dim) {
    Attrs attrs = split.side == side ? tensor_attrs(split, dim) : Attrs();
    attrs.set(kAdapts, name + ".weight");
    return attrs;
  };
  Attrs of_a = attrs_of(TensorSplit::Side::kInputs, 1);
  if (store == Store::kInOut) of_a.set("in_out", int64_t{1});
  const Attrs transposed{{"transpose_b", int64_t{1}}};
  const ValueId a = parameter(adapter_name(name, 'A'), {adapters_.rank, inputs},
                              Init::uniform(1 / std::sqrt(static_cast<double>(inputs))), of_a);
  const ValueId b = parameter(adapter_name(name, 'B'), {outputs, adapters_.rank}, Init::zeros(),
                              attrs_of(TensorSplit::Side::kOutputs, 0));
  const ValueId y = op("matmul", {op("matmul", {x, a}, transposed), b}, transposed);
  return adapters_.scale == 1 ? y : op("affine", {y}, {{"scale", adapters_.scale}});
}

ValueId Network::layer_norm(ValueId x, const std::string& name, double eps) {
  const Builder::Scope layer = scope(name);
  const int64_t h = shape(x).back();
  const Attrs norm{{"layer", "norm"}};
  const ValueId gain = parameter(name + ".weight", {h}, Init::ones(), norm),
                bias = parameter(name + ".bias", {h}, Init::zeros(), norm);
  return op("layer_norm", {x, gain, bias}, {{"eps", eps}});
}

ValueId Network::rms_norm(ValueId x, const std::string& name, double eps) {
  const Builder::Scope layer = scope(name);
  return op("rms_norm",
            {x, parameter(name + ".weight", {shape(x).back()}, Init::ones(), {{"layer", "norm"}})},
            {{"eps", eps}});
}

ValueId Network::batch_norm(ValueId x, const std::string& name) {
  const Builder::Scope layer = scope(name);
  const int64_t c = shape(x)[1];
  const ValueId gain = parameter(name + ".weight", {c}, Init::ones()),
                bias = parameter(name + ".bias", {c}, Init::zeros());
  const ValueId mean = buffer(name + ".running_mean", {c}, Init::zeros()),
                var = buffer(name + ".running_var", {c}, Init::ones());
  return batch_norm(x, gain, bias, mean, var);
}

ValueId Network::batch_norm(ValueId x, ValueId gain, ValueId bias, ValueId mean, ValueId var, double eps,
                            double momentum) {
  Attrs attrs{{"eps", eps}};
  if (mode_ != Mode::kTrain) return op("batch_norm_inference", {x, gain, bias, mean, var}, attrs);
  if (shape(x)[0] % norm_groups_.count != 0) {
    throw_error(
        "a microbatch of {} rows can not be normalised in {} equal groups (batch_norm of each rank on "
        "its own, or model.batch_norm_groups); another train.batch is needed",
        shape(x)[0], norm_groups_.count);
  }
  if (momentum != 0.1) attrs.set("momentum", momentum);
  if (norm_groups_.count > 1) attrs.set("groups", norm_groups_.count);
  if (norm_groups_.averaged > 0) attrs.set("all_groups", norm_groups_.averaged);
  const std::vector<ValueId> results = builder_.node("batch_norm", {x, gain, bias, mean, var}, attrs);
  builder_.update(mean, results[3]);
  builder_.update(var, results[4]);
  return results[0];
}

ValueId Network::conv2d(ValueId x, const std::string& name, Conv conv) {
  const Builder::Scope layer = scope(name);
  const int64_t channels = shape(x)[1], padding = conv.padding >= 0 ? conv.padding : (conv.kernel - 1) / 2;
  const double fan_in = static_cast<double>(channels * conv.kernel * conv.kernel);
  const double fan_out = static_cast<double>(conv.filters * conv.kernel * conv.kernel);
  // He et al., by fan-out; PyTorch's default where the bias has it too.
  const Init init = conv.bias == Bias::kUniform ? Init::uniform(1 / std::sqrt(fan_in))
                                                : Init::normal(std::sqrt(2 / fan_out));
  const ValueId weight = parameter(name + ".weight", {conv.filters, channels, conv.kernel, conv.kernel}, init,
                                   {{"layer", "convolution"}});
  const ValueId y = op("conv2d", {x, weight},
                       {{"stride", std::vector<int64_t>{conv.stride, conv.stride}},
                        {"padding", std::vector<int64_t>{padding, padding}},
                        {"dilation", std::vector<int64_t>{1, 1}}});
  if (conv.bias == Bias::kNone) return y;
  const Init start = conv.bias == Bias::kZeros ? Init::zeros() : Init::uniform(1 / std::sqrt(fan_in));
  const ValueId bias = parameter(name + ".bias", {conv.filters}, start);
  const Shape out = shape(y);
  const ValueId spread =
      op("broadcast", {bias},
         {{"shape", std::vector<int64_t>{out[1], out[2], out[3]}}, {"dims", std::vector<int64_t>{0}}});
  return op("add", {y, spread});
}

ValueId Network::max_pool2d(ValueId x, int64_t kernel, int64_t stride, int64_t padding) {
  const auto pair = [](int64_t value) { return std::vector<int64_t>{value, value}; };
  return op("max_pool2d", {x},
            {{"kernel", pair(kernel)}, {"stride", pair(stride)}, {"padding", pair(padding)}});
}

ValueId Network::dropout(ValueId x, double rate) {
  if (mode_ != Mode::kTrain || rate == 0) return x;
  return op("dropout", {x, rng()}, {{"rate", rate}, {"stream", next_stream()}});
}

ValueId Network::rng() {
  if (rng_ == kNoValue) rng_ = builder_.input("rng", {DType::i64, Shape{2}}, Role::kRng);
  return rng_;
}

Loss Network::cross_entropy(ValueId logits, ValueId targets, double label_smoothing) {
  const std::vector<ValueId> loss =
      builder_.node("cross_entropy", {logits, targets},
                    {{"ignore_index", int64_t{-1}}, {"label_smoothing", label_smoothing}});
  return {loss[0], loss[1]};
}

Loss Network::squared_error(ValueId prediction, ValueId expected) {
  // sum_squares adds up in f32 whatever the precision, so that a large number is counted exactly.
  const ValueId ones = op("affine", {expected}, {{"scale", 0.0}, {"shift", 1.0}});
  return {op("sum_squares", {op("sub", {prediction, expected})}), op("sum_squares", {ones})};
}

ValueId Network::place(const char* name, const Shape& shape) {
  const ValueId known = builder_.find(name);
  return known != kNoValue ? known : builder_.input(name, {DType::i32, shape}, Role::kBatch);
}

ValueId Network::position_rows(ValueId table, ValueId ids) {
  const int64_t t = shape(ids)[1];
  if (mode_ == Mode::kDecode) return op("embedding", {table, place("positions", shape(ids))});
  if (t == shape(table)[0]) return table;
  return op("slice", {table}, {{"dim", int64_t{0}}, {"start", int64_t{0}}, {"size", t}});
}

ValueId Network::rope(ValueId x, double base) {
  const Attrs attrs{{"base", base}};
  return mode_ == Mode::kDecode ? op("rope_at", {x, place("position", {shape(x)[0]})}, attrs)
                                : op("rope", {x}, attrs);
}

// The lines of all texts, with these rows among them; and the state that keeps them.
ValueId Network::kept(ValueId rows, const std::string& name, int64_t seq) {
  Shape whole = shape(rows);
  const Shape batch{whole[0]};
  whole.set(0, lines_);
  whole.set(1, seq);
  // By heads, as tensor parallelism splits the weights that make them.
  const ValueId cache = builder_.state(name, {DType::f32, whole}, Role::kCache, {{"tensor_dim", int64_t{2}}});
  rows = op("write_at", {cache, rows, place("line", batch), place("position", batch)});
  builder_.update(cache, rows);
  return rows;
}

ValueId Network::attention(ValueId q, ValueId k, ValueId v, const std::string& name, int64_t seq, Sees sees) {
  const double scale = 1 / std::sqrt(static_cast<double>(shape(q).back()));
  if (mode_ == Mode::kDecode) {
    if (sees != Sees::kEarlier)
      throw_error("'{}' sees tokens that come later, so that text can not be generated token by token", name);
    const Shape batch{shape(q)[0]};
    k = kept(k, name + ".keys", seq);
    v = kept(v, name + ".values", seq);
    return op("attention_at", {q, k, v, place("line", batch), place("position", batch)}, {{"scale", scale}});
  }
  return op("attention", {q, k, v}, {{"causal", int64_t{sees == Sees::kEarlier}}, {"scale", scale}});
}

ValueId Network::attention_to_lengths(ValueId q, ValueId k, ValueId v, ValueId lengths) {
  return op("attention_padded", {q, k, v, lengths},
            {{"scale", 1 / std::sqrt(static_cast<double>(shape(q).back()))}});
}

ValueId Network::rows_for_logits(ValueId x) {
  if (mode_ != Mode::kWindow) return x;
  const Shape from = shape(x);
  if (from.rank() != 3)
    throw_error(
        "rows_for_logits() was given {} where text is generated; expected features of tokens, [texts, tokens, "
        "features]. Call it before the tokens are reshaped away",
        to_string(from));
  return op("embedding", {reshape(x, {from[0] * from[1], from[2]}), place("last", {from[0], 1})});
}

}  // namespace trireme

// What the emitter computes element by element.
#include <algorithm>
#include <cmath>

#include "trireme/onnx/emitter.h"

namespace trireme::onnx {
namespace {

bool compares(std::string_view kind, auto a, auto b) {
  if (kind == "lt") return a < b;
  if (kind == "le") return a <= b;
  if (kind == "gt") return a > b;
  if (kind == "ge") return a >= b;
  return (kind == "eq") == (a == b);
}

// Of what is known, finite, and the same everywhere: a number, or a mask that hides nothing.
const Tensor* known_scalar(const Value& value) {
  const Tensor* tensor = value.known.get();
  if (!tensor || tensor->elements() == 0 || !std::isfinite(tensor->real(0))) return nullptr;
  for (int64_t i = 1; i < tensor->elements(); ++i) {
    if (tensor->real(i) != tensor->real(0)) return nullptr;
  }
  return tensor;
}
}  // namespace

Value Emitter::unary(const Value& x, std::string_view name, Fold1 fold) {
  if (!x.known) {
    if (name.empty())
      throw_error("there is no op that computes it; it can only be folded where its input is known");
    return op(name, {x});
  }
  if (!is_real(x.type) && !fold.integer)
    throw_error("it is given {}; real numbers expected", type_name(x.type));
  Tensor result = zeros(x.type, x.shape);
  for (int64_t i = 0; i < result.elements(); ++i) {
    if (is_real(x.type))
      store(result, i, fold.real(x.known->reals[i]));
    else
      store(result, i, fold.integer(x.known->integers[i]));
  }
  return known(std::move(result));
}

Value Emitter::affine(const Value& x, double scale, double shift) {
  if (!x.known) {
    if (scale == 1 && shift == 0) return x;
    return op("affine", {x}, {{"scale", scale}, {"shift", shift}});
  }
  Tensor result = zeros(x.type, x.shape);
  for (int64_t i = 0; i < result.elements(); ++i) {
    if (is_real(x.type))
      store(result, i, scale * x.known->reals[i] + shift);
    else
      store(result, i, static_cast<int64_t>(scale) * x.known->integers[i] + static_cast<int64_t>(shift));
  }
  return known(std::move(result));
}

Value Emitter::binary(const Value& a, const Value& b, std::string_view name, Fold2 fold) {
  const Shape shape = broadcast_shape(a.shape, b.shape);
  if (a.known && b.known) {
    if (is_real(a.type) != is_real(b.type))
      throw_error("it is given {} and {}; two of one kind expected", type_name(a.type), type_name(b.type));
    if (!is_real(a.type) && !fold.integer)
      throw_error("it is given {}; real numbers expected", type_name(a.type));
    const Tensor left = *expand(a, shape).known, right = *expand(b, shape).known;
    Tensor result = zeros(a.type, shape);
    for (int64_t i = 0; i < result.elements(); ++i) {
      if (is_real(a.type))
        store(result, i, fold.real(left.reals[i], right.reals[i]));
      else
        store(result, i, fold.integer(left.integers[i], right.integers[i]));
    }
    return known(std::move(result));
  }
  if (name.empty())
    throw_error("there is no op that computes it; it can only be folded where its inputs are known");
  // The first must be whole. The second may lack leading dims, so ones in front of it are dropped first.
  Shape suffix = b.shape;
  while (suffix.rank() > 0 && suffix[0] == 1 && !(suffix.rank() == shape.rank() && shape[0] == 1))
    suffix = suffix.slice(1, suffix.rank());
  const Value right = expand(reshape(b, suffix), shape.slice(shape.rank() - suffix.rank(), shape.rank()));
  return op(name, {expand(a, shape), right});
}

Value Emitter::add(const Value& a, const Value& b) {
  if (!a.known || !b.known) {
    if (const Tensor* c = known_scalar(b); c && broadcast_shape(a.shape, b.shape) == a.shape && !a.stored)
      return affine(a, 1, c->real(0));
    if (known_scalar(a) && broadcast_shape(a.shape, b.shape) == b.shape) return add(b, a);
    // The larger one first, so that the other is its suffix.
    if (a.shape.elements() < b.shape.elements()) return binary(b, a, "add", {nullptr});
  }
  return binary(a, b, "add",
                {[](double x, double y) { return x + y; },
                 [](int64_t x, int64_t y) {
                   return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
                 }});
}

Value Emitter::subtract(const Value& a, const Value& b) {
  if (const Tensor* c = known_scalar(b); !a.known && c && broadcast_shape(a.shape, b.shape) == a.shape)
    return affine(a, 1, -c->real(0));
  if (const Tensor* c = known_scalar(a); !b.known && c && broadcast_shape(a.shape, b.shape) == b.shape)
    return affine(b, -1, c->real(0));
  return binary(a, b, "sub",
                {[](double x, double y) { return x - y; },
                 [](int64_t x, int64_t y) {
                   return static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
                 }});
}

Value Emitter::multiply(const Value& a, const Value& b) {
  if (!a.known || !b.known) {
    if (const Tensor* c = known_scalar(b); c && broadcast_shape(a.shape, b.shape) == a.shape)
      return affine(a, c->real(0), 0);
    if (known_scalar(a) && broadcast_shape(a.shape, b.shape) == b.shape) return multiply(b, a);
    if (a.shape.elements() < b.shape.elements()) return binary(b, a, "mul", {nullptr});
  }
  return binary(a, b, "mul",
                {[](double x, double y) { return x * y; },
                 [](int64_t x, int64_t y) {
                   return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
                 }});
}

Value Emitter::divide(const Value& a, const Value& b) {
  if (const Tensor* c = known_scalar(b);
      !a.known && c && c->real(0) != 0 && broadcast_shape(a.shape, b.shape) == a.shape)
    return affine(a, 1 / c->real(0), 0);
  if (a.known && a.type == Type::kU64 && b.known)
    throw_error("it divides uint64, which is not folded; use int64");
  return binary(a, b, "div",
                {[](double x, double y) { return x / y; },
                 [](int64_t x, int64_t y) {
                   if (y == 0) throw_error("it divides an integer by zero");
                   return y == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x / y;
                 }});
}

Value Emitter::compare(const Value& a, const Value& b, std::string_view kind) {
  const Shape shape = broadcast_shape(a.shape, b.shape);
  if (a.known && b.known) {
    const Tensor left = *expand(a, shape).known, right = *expand(b, shape).known;
    Tensor result = zeros(Type::kBool, shape);
    for (int64_t i = 0; i < result.elements(); ++i) {
      result.integers[i] = is_real(a.type)        ? compares(kind, left.reals[i], right.reals[i])
                           : a.type == Type::kU64 ? compares(kind, static_cast<uint64_t>(left.integers[i]),
                                                             static_cast<uint64_t>(right.integers[i]))
                                                  : compares(kind, left.integers[i], right.integers[i]);
    }
    return known(std::move(result));
  }
  const ValueId left = id(expand(a, shape)), right = id(expand(b, shape));
  const ValueId truth = builder_.op("compare", {left, right}, {{"kind", std::string(kind)}});
  return computed(builder_.op("cast", {truth}, {{"to", std::string(name(builder_.type(left).dtype))}}),
                  Type::kBool);
}

Value Emitter::select(const Value& condition, const Value& a, const Value& b) {
  const Shape shape = broadcast_shape(condition.shape, broadcast_shape(a.shape, b.shape));
  if (condition.known && a.known && b.known) {
    const Tensor where = *expand(condition, shape).known, left = *expand(a, shape).known,
                 right = *expand(b, shape).known;
    Tensor result = zeros(a.type, shape);
    for (int64_t i = 0; i < result.elements(); ++i) {
      const Tensor& chosen = where.integers[i] ? left : right;
      if (is_real(a.type))
        result.reals[i] = chosen.real(i);
      else
        result.integers[i] = chosen.integers[i];
    }
    return known(std::move(result));
  }
  // Truth values are numbers here, so the op's truth is made of them.
  const ValueId truth = id(expand(condition, shape));
  const ValueId zero = id(expand(scalar(0), shape));
  const ValueId chosen = builder_.op("compare", {truth, zero}, {{"kind", std::string("ne")}});
  const ValueId left = id(expand(a, shape)), right = id(expand(b, shape));
  return computed(builder_.op("select", {chosen, left, right}), a.type);
}

Value Emitter::relu(const Value& x) {
  return unary(x, "relu", {[](double v) { return v < 0 ? 0 : v; }, [](int64_t v) { return v < 0 ? 0 : v; }});
}
Value Emitter::exp(const Value& x) {
  return unary(x, "exp", {[](double v) { return std::exp(v); }});
}
Value Emitter::log(const Value& x) {
  return unary(x, "log", {[](double v) { return std::log(v); }});
}
Value Emitter::sqrt(const Value& x) {
  return unary(x, "sqrt", {[](double v) { return std::sqrt(v); }});
}
Value Emitter::tanh(const Value& x) {
  return unary(x, "tanh", {[](double v) { return std::tanh(v); }});
}
Value Emitter::sigmoid(const Value& x) {
  return unary(x, "sigmoid", {[](double v) { return 1 / (1 + std::exp(-v)); }});
}

Value Emitter::cast(const Value& x, Type to) {
  if (to == Type::kBf16 && x.type != Type::kBf16)
    throw_error(
        "it rounds to bfloat16, which ONNX has defined in two ways; train.precision = bf16 computes in it");
  if (x.known) return known(onnx::cast(*x.known, to));
  if (x.type == to || (x.stored && to == Type::kF32)) return x;
  const bool is_ids = !is_real(x.type) && x.type != Type::kBool;
  if (is_ids && (to == Type::kI32 || to == Type::kI64)) {
    Value same = x;
    same.type = to;
    return same;
  }
  if (to == Type::kBool && !is_ids) return compare(x, scalar(0), "ne");
  if (!is_real(to))
    throw_error("it makes {} of {} that are not known when the graph is imported", type_name(to),
                type_name(x.type));
  ValueId result = is_ids ? builder_.op("cast", {x.id}, {{"to", std::string("f32")}}) : id(x);
  if (to == Type::kF16) {  // rounded to it, and on in the model's own format
    const std::string own(name(builder_.type(result).dtype));
    result = builder_.op("cast", {result}, {{"to", std::string("f16")}});
    result = builder_.op("cast", {result}, {{"to", own}});
  }
  return computed(result, to);
}

}  // namespace trireme::onnx

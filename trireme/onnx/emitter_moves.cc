// What the emitter moves, reduces and multiplies as matrices.
#include <algorithm>
#include <limits>
#include <numeric>

#include "trireme/onnx/emitter.h"
#include "trireme/onnx/strides.h"

namespace trireme::onnx {
namespace {

std::vector<int64_t> extents_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

Attrs integers_attr(std::string_view name, std::vector<int64_t> values) {
  return {{std::string(name), std::move(values)}};
}

}  // namespace

// An op that moves elements, of any type.
Value Emitter::moved(const Value& x, std::string_view name, Attrs attrs) {
  const bool is_ids = x.id != kNoValue && builder_.type(x.id).dtype == DType::i32;
  return computed(builder_.op(name, {is_ids ? x.id : id(x)}, std::move(attrs)), x.type);
}

Value Emitter::reshape(const Value& x, const Shape& shape) {
  if (x.shape.elements() != shape.elements())
    throw_error("{} can not have the shape {}", to_string(x.shape), to_string(shape));
  if (x.shape == shape) return x;
  if (!x.known) return moved(x, "reshape", integers_attr("shape", extents_of(shape)));
  Tensor result = *x.known;
  result.shape = shape;
  return known(std::move(result));
}

Value Emitter::transpose(const Value& x, const std::vector<int64_t>& perm) {
  if (std::ranges::is_sorted(perm)) return x;
  if (!x.known) return moved(x, "transpose", integers_attr("perm", perm));
  const std::vector<int64_t> strides = strides_of(x.shape);
  Shape shape;
  std::vector<int64_t> steps;
  for (const int64_t d : perm) {
    shape.push_back(x.shape[static_cast<int>(d)]);
    steps.push_back(strides[d]);
  }
  return known(strided(*x.known, shape, steps));
}

Value Emitter::expand(const Value& x, const Shape& shape) {
  if (x.shape == shape) return x;
  if (broadcast_shape(x.shape, shape) != shape)
    throw_error("{} can not be broadcast to {}", to_string(x.shape), to_string(shape));
  if (x.known) return known(strided(*x.known, shape, steps_in(x.shape, shape)));
  // Dims of one that grow are dropped; the others are where they were.
  Shape kept;
  std::vector<int64_t> dims;
  const int shift = shape.rank() - x.shape.rank();
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (x.shape[d] == 1 && shape[d + shift] != 1) continue;
    kept.push_back(x.shape[d]);
    dims.push_back(d + shift);
  }
  return moved(reshape(x, kept), "broadcast", {{"shape", extents_of(shape)}, {"dims", dims}});
}

Value Emitter::slice(const Value& x, int dim, int64_t start, int64_t size) {
  if (start == 0 && size == x.shape[dim]) return x;
  if (!x.known)
    return moved(x, "slice", {{"dim", static_cast<int64_t>(dim)}, {"start", start}, {"size", size}});
  const std::vector<int64_t> strides = strides_of(x.shape);
  return known(strided(*x.known, with_dim(x.shape, dim, size), strides, start * strides[dim]));
}

Value Emitter::concat(const std::vector<Value>& parts, int dim) {
  if (parts.size() == 1) return parts[0];
  if (!std::ranges::all_of(parts, is_known)) {
    std::vector<ValueId> given;
    for (const Value& part : parts) given.push_back(part.shape.elements() == 0 ? kNoValue : id(part));
    std::erase(given, kNoValue);
    return computed(builder_.op("concat", given, {{"dim", static_cast<int64_t>(dim)}}), parts[0].type);
  }
  int64_t total = 0;
  for (const Value& part : parts) {
    if (part.shape.rank() != parts[0].shape.rank() ||
        with_dim(part.shape, dim, 0) != with_dim(parts[0].shape, dim, 0))
      throw_error("{} and {} can not be concatenated along dim {}", to_string(parts[0].shape),
                  to_string(part.shape), dim);
    total += part.shape[dim];
  }
  Tensor result = zeros(parts[0].type, with_dim(parts[0].shape, dim, total));
  const std::vector<int64_t> steps = strides_of(result.shape);
  int64_t first = 0;
  for (const Value& part : parts) {
    for_each_offset(part.shape, steps, [&](int64_t i, int64_t offset) {
      if (is_real(result.type))
        result.reals[first * steps[dim] + offset] = part.known->real(i);
      else
        result.integers[first * steps[dim] + offset] = part.known->integers[i];
    });
    first += part.shape[dim];
  }
  return known(std::move(result));
}

Value Emitter::pad(const Value& x, int dim, int64_t low, int64_t high, double value) {
  if (low < 0 || high < 0) {
    const int64_t less = std::max<int64_t>(-low, 0) + std::max<int64_t>(-high, 0);
    if (less > x.shape[dim]) throw_error("it removes {} of {} elements", less, x.shape[dim]);
    return pad(slice(x, dim, std::max<int64_t>(-low, 0), x.shape[dim] - less), dim, std::max<int64_t>(low, 0),
               std::max<int64_t>(high, 0), value);
  }
  if (low == 0 && high == 0) return x;
  if (!x.known && value == 0)
    return moved(x, "pad", {{"dim", static_cast<int64_t>(dim)}, {"low", low}, {"high", high}});
  const auto part = [&](int64_t size) {
    Tensor one = zeros(x.type, {});
    store(one, 0, value);
    return expand(known(std::move(one)), with_dim(x.shape, dim, size));
  };
  std::vector<Value> parts;
  if (low > 0) parts.push_back(part(low));
  parts.push_back(x);
  if (high > 0) parts.push_back(part(high));
  return concat(parts, dim);
}

Value Emitter::take(const Value& x, int dim, const std::vector<int64_t>& indices) {
  const int64_t extent = x.shape[dim], count = static_cast<int64_t>(indices.size());
  for (const int64_t index : indices) {
    if (index < 0 || index >= extent)
      throw_error("it takes element {} of dim {} of {}", index, dim, to_string(x.shape));
  }
  if (x.known) {
    const std::vector<int64_t> strides = strides_of(x.shape);
    std::vector<int64_t> steps = strides;
    steps[dim] = 0;
    Tensor result = zeros(x.type, with_dim(x.shape, dim, count));
    int64_t inner = x.shape.elements(dim + 1, x.shape.rank());
    for_each_offset(result.shape, steps, [&](int64_t i, int64_t offset) {
      const int64_t from = offset + indices[i / inner % count] * strides[dim];
      if (is_real(x.type))
        result.reals[i] = x.known->reals[from];
      else
        result.integers[i] = x.known->integers[from];
    });
    return known(std::move(result));
  }
  if (count == 0) return slice(x, dim, 0, 0);
  // Each element so many times: as a dim of its own.
  int64_t times = 1;
  while (times < count && indices[times] == indices[0]) ++times;
  bool even = times > 1 && count % times == 0;
  for (int64_t i = 0; even && i < count; ++i) even = indices[i] == indices[i / times * times];
  if (even) {
    std::vector<int64_t> fewer;
    for (int64_t i = 0; i < count; i += times) fewer.push_back(indices[i]);
    const Value chosen = take(x, dim, fewer);
    std::vector<int64_t> one = extents_of(chosen.shape);
    one.insert(one.begin() + dim + 1, 1);
    std::vector<int64_t> many = one;
    many[dim + 1] = times;
    return reshape(
        expand(reshape(chosen, Shape(std::span<const int64_t>(one))), Shape(std::span<const int64_t>(many))),
        with_dim(x.shape, dim, count));
  }
  // Every step-th element.
  const int64_t step = count > 1 ? indices[1] - indices[0] : 1;
  bool regular = step > 1;
  for (int64_t i = 1; regular && i < count; ++i) regular = indices[i] - indices[i - 1] == step;
  if (regular) {
    const Value from = slice(x, dim, indices[0], std::min(extent - indices[0], step * count));
    std::vector<int64_t> apart = extents_of(from.shape);
    apart[dim] = count;
    apart.insert(apart.begin() + dim + 1, step);
    const Value padded = pad(from, dim, 0, step * count - from.shape[dim]);
    return reshape(slice(reshape(padded, Shape(std::span<const int64_t>(apart))), dim + 1, 0, 1),
                   with_dim(x.shape, dim, count));
  }
  constexpr size_t kMostPieces = 1024;
  std::vector<Value> pieces;
  for (int64_t i = 0; i < count;) {
    int64_t size = 1;
    while (i + size < count && indices[i + size] == indices[i] + size) ++size;
    pieces.push_back(slice(x, dim, indices[i], size));
    if (pieces.size() > kMostPieces)
      throw_error("it takes more than {} separate pieces of a tensor that is computed when it runs",
                  kMostPieces);
    i += size;
  }
  return concat(pieces, dim);
}

Value Emitter::reduce(const Value& x, std::string_view name, const std::vector<int>& dims) {
  if (dims.empty()) return x;
  if (!x.known) return op(name, {x}, integers_attr("dims", std::vector<int64_t>(dims.begin(), dims.end())));
  const Shape shape = removed(x.shape, dims);
  std::vector<int64_t> steps(x.shape.rank(), 0);
  const std::vector<int64_t> strides = strides_of(shape);
  for (int d = 0, to = 0; d < x.shape.rank(); ++d) {
    if (std::ranges::find(dims, d) == dims.end()) steps[d] = strides[to++];
  }
  Tensor result = zeros(x.type, shape);
  const double count =
      static_cast<double>(x.shape.elements()) / static_cast<double>(std::max<int64_t>(1, shape.elements()));
  std::vector<double> sums(shape.elements(), name == "max" ? -std::numeric_limits<double>::infinity() : 0.0);
  std::vector<int64_t> integer_sums(shape.elements(),
                                    name == "max" ? std::numeric_limits<int64_t>::min() : int64_t{0});
  if (!is_real(x.type) && name == "mean")
    throw_error("it is given {}; real numbers expected", type_name(x.type));
  for_each_offset(x.shape, steps, [&](int64_t i, int64_t to) {
    if (is_real(x.type))
      sums[to] = name == "max" ? std::max(sums[to], x.known->reals[i]) : sums[to] + x.known->reals[i];
    else
      integer_sums[to] = name == "max" ? std::max(integer_sums[to], x.known->integers[i])
                                       : static_cast<int64_t>(static_cast<uint64_t>(integer_sums[to]) +
                                                              static_cast<uint64_t>(x.known->integers[i]));
  });
  for (int64_t i = 0; i < shape.elements(); ++i) {
    if (is_real(x.type))
      store(result, i, name == "mean" ? sums[i] / count : sums[i]);
    else
      store(result, i, integer_sums[i]);
  }
  return known(std::move(result));
}

Value Emitter::softmax(const Value& x, int dim) {
  std::vector<int64_t> perm(x.shape.rank());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[dim], perm.back());  // its own inverse
  return transpose(op("softmax", {transpose(x, perm)}), perm);
}

Value Emitter::matmul(const Value& x, const Value& y) {
  if (y.shape.rank() == 2) return op("matmul", {x, y});
  // One batch of matrices for both.
  Shape batch = broadcast_shape(x.shape.slice(0, x.shape.rank() - 2), y.shape.slice(0, y.shape.rank() - 2));
  const auto with = [&](const Shape& last) {
    Shape shape = batch;
    shape.push_back(last[last.rank() - 2]);
    shape.push_back(last.back());
    return shape;
  };
  return op("matmul", {expand(x, with(x.shape)), expand(y, with(y.shape))});
}

Value Emitter::along(const Value& x, int dim, const Tensor& matrix) {
  std::vector<int64_t> perm(x.shape.rank());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[dim], perm.back());
  return transpose(op("matmul", {transpose(x, perm), known(matrix)}), perm);
}

}  // namespace trireme::onnx

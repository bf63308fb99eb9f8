// ONNX ops that make shapes, and that move elements without choosing among them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/onnx/node.h"

namespace trireme::onnx {
namespace {

Shape shape_from(const std::vector<int64_t>& extents) {
  if (extents.size() > Shape::kMaxDims)
    throw_error("a shape of {} dims; at most {} are supported", extents.size(), Shape::kMaxDims);
  double elements = 1;
  for (const int64_t extent : extents) {
    if (extent < 0) throw_error("a dim of {} elements", extent);
    elements *= static_cast<double>(std::max<int64_t>(extent, 1));
  }
  if (elements > 0x1p48) throw_error("a tensor of more than 2^48 elements");
  return Shape(std::span<const int64_t>(extents));
}

Values reshape(Node& n) {
  const Shape& from = n.in(0).shape;
  std::vector<int64_t> to = n.opset < 5 ? n.integers("shape") : n.known_integers(1, "shape");
  int64_t known = 1;
  int open = -1;
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 0 && n.integer("allowzero", 0) == 0) {
      if (static_cast<int>(d) >= from.rank())
        throw_error("dim {} is kept of {}, which has none", d, to_string(from));
      to[d] = from[static_cast<int>(d)];
    }
    if (to[d] == -1) {
      if (open >= 0) throw_error("two dims are -1; one at most can be inferred");
      open = static_cast<int>(d);
    } else {
      known *= shape_from({to[d]})[0];
      if (known > (int64_t{1} << 48)) throw_error("a tensor of more than 2^48 elements");
    }
  }
  if (open >= 0) to[open] = known == 0 ? 0 : from.elements() / known;
  return {n.e.reshape(n.in(0), shape_from(to))};
}

Values flatten(Node& n) {
  const Shape& from = n.in(0).shape;
  int64_t axis = n.integer("axis", 1);
  if (axis < 0) axis += from.rank();
  if (axis < 0 || axis > from.rank()) throw_error("axis {} of a tensor of {} dims", axis, from.rank());
  const int at = static_cast<int>(axis);
  return {n.e.reshape(n.in(0), {from.elements(0, at), from.elements(at, from.rank())})};
}

Values squeeze(Node& n) {
  const Shape& from = n.in(0).shape;
  std::vector<int> dims;
  for (const int64_t axis : n.integers_until(13, "axes", 1)) {
    dims.push_back(Node::dim(axis, from.rank()));
    if (from[dims.back()] != 1)
      throw_error("dim {} of {} has more than one element", dims.back(), to_string(from));
  }
  if (dims.empty()) {
    for (int d = 0; d < from.rank(); ++d) {
      if (from[d] == 1) dims.push_back(d);
    }
  }
  return {n.e.reshape(n.in(0), removed(from, dims))};
}

Values unsqueeze(Node& n) {
  const Shape& from = n.in(0).shape;
  const std::vector<int64_t> axes = n.integers_until(13, "axes", 1);
  const int rank = from.rank() + static_cast<int>(axes.size());
  std::vector<int64_t> extents(rank, -1);
  if (rank > Shape::kMaxDims)
    throw_error("a shape of {} dims; at most {} are supported", rank, Shape::kMaxDims);
  for (const int64_t axis : axes) {
    int64_t& extent = extents[Node::dim(axis, rank)];
    if (extent == 1) throw_error("axis {} is given twice", axis);
    extent = 1;
  }
  int next = 0;
  for (int64_t& extent : extents) {
    if (extent < 0) extent = from[next++];
  }
  return {n.e.reshape(n.in(0), shape_from(extents))};
}

Values transpose(Node& n) {
  const int rank = n.in(0).shape.rank();
  std::vector<int64_t> perm = n.integers("perm");
  if (perm.empty()) {
    perm.resize(rank);
    std::iota(perm.rbegin(), perm.rend(), int64_t{0});
  }
  std::vector<int64_t> sorted = perm;
  std::ranges::sort(sorted);
  for (int d = 0; d < static_cast<int>(sorted.size()); ++d) {
    if (sorted[d] != d || static_cast<int>(sorted.size()) != rank)
      throw_error("perm is no permutation of {} dims", rank);
  }
  return {n.e.transpose(n.in(0), perm)};
}

Values shape_of(Node& n) {
  const Shape& shape = n.in(0).shape;
  const int64_t rank = shape.rank();
  const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = bound(n.integer("start", 0)), end = std::max(start, bound(n.integer("end", rank)));
  return {Emitter::known(integers({shape.begin() + start, shape.begin() + end}))};
}

Values size_of(Node& n) {
  Tensor size = zeros(Type::kI64, {});
  size.integers[0] = n.in(0).shape.elements();
  return {Emitter::known(std::move(size))};
}

Values constant(Node& n) {
  if (const StoredTensor* tensor = n.tensor("value")) {
    if (tensor->external) throw_error("its value is stored outside of the file; keep it inside");
    return {Emitter::known(tensor->decode())};
  }
  if (n.has_attribute("value_float")) return {Emitter::scalar(n.real("value_float", 0))};
  if (n.has_attribute("value_int")) {
    Tensor one = zeros(Type::kI64, {});
    one.integers[0] = n.integer("value_int", 0);
    return {Emitter::known(std::move(one))};
  }
  if (n.has_attribute("value_ints")) return {Emitter::known(integers(n.integers("value_ints")))};
  if (n.has_attribute("value_floats")) {
    const std::vector<float> values = n.reals("value_floats");
    return {Emitter::known(reals({static_cast<int64_t>(values.size())}, {values.begin(), values.end()}))};
  }
  throw_error("its value is neither numbers nor a dense tensor");
}

Values constant_of_shape(Node& n) {
  Tensor one = n.tensor("value") ? n.tensor("value")->decode() : reals({1}, {0});
  if (one.elements() != 1) throw_error("its value has {} elements; one expected", one.elements());
  one.shape = {};
  return {n.e.expand(Emitter::known(std::move(one)), shape_from(n.known_integers(0, "shape")))};
}

Values range(Node& n) {
  const Tensor &start = n.constant(0, "start"), &limit = n.constant(1, "limit"),
               &step = n.constant(2, "step");
  if (start.elements() != 1 || limit.elements() != 1 || step.elements() != 1)
    throw_error("its start, limit and step must be numbers");
  if (step.real(0) == 0) throw_error("its step is 0");
  const double count = std::ceil((limit.real(0) - start.real(0)) / step.real(0));
  if (!(count <= static_cast<double>(kMostFolded))) throw_error("it makes {} numbers", count);
  Tensor result = zeros(start.type, {std::max<int64_t>(0, static_cast<int64_t>(count))});
  for (int64_t i = 0; i < result.elements(); ++i) {
    if (is_real(start.type))
      store(result, i, start.reals[0] + static_cast<double>(i) * step.real(0));
    else
      store(result, i, start.integers[0] + i * step.integers[0]);
  }
  return {Emitter::known(std::move(result))};
}

Values expand(Node& n) {
  const Shape to = shape_from(n.known_integers(1, "shape"));
  return {n.e.expand(n.in(0), broadcast_shape(n.in(0).shape, to))};
}

Values tile(Node& n) {
  Value x = n.in(0);
  std::vector<int64_t> times;
  if (n.opset < 6) {  // one dim, so many times
    times.assign(x.shape.rank(), 1);
    times[Node::dim(static_cast<int64_t>(n.known_real(2, "axis")), x.shape.rank())] =
        static_cast<int64_t>(n.known_real(1, "tiles"));
  } else {
    times = n.known_integers(1, "repeats");
  }
  if (static_cast<int>(times.size()) != x.shape.rank())
    throw_error("{} repeats of {}", times.size(), to_string(x.shape));
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (times[d] == 1) continue;
    // Repeats as a dim in front of the dim.
    std::vector<int64_t> one(x.shape.begin(), x.shape.end());
    one.insert(one.begin() + d, 1);
    std::vector<int64_t> many = one;
    many[d] = times[d];
    const Shape to = with_dim(x.shape, d, shape_from({times[d]})[0] * x.shape[d]);
    x = n.e.reshape(n.e.expand(n.e.reshape(x, shape_from(one)), shape_from(many)),
                    shape_from({to.begin(), to.end()}));
  }
  return {x};
}

Values concat(Node& n) {
  std::vector<Value> parts;
  for (int i = 0; i < n.inputs(); ++i) parts.push_back(n.in(i));
  return {n.e.concat(parts, n.axis(n.opset < 4 ? 1 : 0))};
}

Values split(Node& n) {
  const Value& x = n.in(0);
  const int dim = n.axis(0);
  int outputs = 0;
  while (n.gives(outputs)) ++outputs;
  std::vector<int64_t> sizes = n.integers_until(13, "split", 1);
  if (sizes.empty() && n.opset < 13 && n.has(1)) sizes = n.known_integers(1, "split");
  if (sizes.empty()) {  // even parts, the last one smaller
    const int64_t parts = n.integer("num_outputs", outputs), each = (x.shape[dim] + parts - 1) / parts;
    for (int64_t i = 0, left = x.shape[dim]; i < parts; ++i, left -= each)
      sizes.push_back(std::clamp<int64_t>(left, 0, each));
  }
  Values results;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > x.shape[dim] - start)
      throw_error("its parts do not fit dim {} of {}", dim, to_string(x.shape));
    results.push_back(n.e.slice(x, dim, start, size));
    start += size;
  }
  if (start != x.shape[dim]) throw_error("its parts add up to {} of {}", start, x.shape[dim]);
  return results;
}

// [n, c, h, w] seen as blocks × blocks of pixels.
Values depth_to_space(Node& n) {
  const Shape& s = n.in(0).shape;
  const int64_t b = n.integer("blocksize", 0);
  if (s.rank() != 4 || b < 1 || s[1] % (b * b) != 0) throw_error("{} has no blocks of {}", to_string(s), b);
  const int64_t c = s[1] / (b * b);
  const bool crd = n.text("mode", "DCR") == "CRD";
  const Value apart = crd ? n.e.reshape(n.in(0), {s[0], c, b, b, s[2], s[3]})
                          : n.e.reshape(n.in(0), {s[0], b, b, c, s[2], s[3]});
  const Value moved = n.e.transpose(
      apart, crd ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2});
  return {n.e.reshape(moved, {s[0], c, s[2] * b, s[3] * b})};
}
Values space_to_depth(Node& n) {
  const Shape& s = n.in(0).shape;
  const int64_t b = n.integer("blocksize", 0);
  if (s.rank() != 4 || b < 1 || s[2] % b != 0 || s[3] % b != 0)
    throw_error("{} has no blocks of {}", to_string(s), b);
  const Value apart = n.e.reshape(n.in(0), {s[0], s[1], s[2] / b, b, s[3] / b, b});
  return {n.e.reshape(n.e.transpose(apart, {0, 3, 5, 1, 2, 4}), {s[0], s[1] * b * b, s[2] / b, s[3] / b})};
}

Values eye_like(Node& n) {
  const Shape& shape = n.in(0).shape;
  if (shape.rank() != 2) throw_error("{} is no matrix", to_string(shape));
  const int64_t k = n.integer("k", 0);
  Tensor eye = zeros(static_cast<Type>(n.integer("dtype", static_cast<int64_t>(n.in(0).type))), shape);
  for (int64_t i = 0; i < shape[0]; ++i) {
    if (i + k >= 0 && i + k < shape[1]) store(eye, i * shape[1] + i + k, int64_t{1});
  }
  return {Emitter::known(std::move(eye))};
}

Values trilu(Node& n) {
  const Shape& shape = n.in(0).shape;
  if (shape.rank() < 2) throw_error("{} is no matrix", to_string(shape));
  const int64_t rows = shape[shape.rank() - 2], columns = shape.back();
  const int64_t k = n.has(1) ? static_cast<int64_t>(n.known_real(1, "diagonal")) : 0;
  const bool upper = n.integer("upper", 1) != 0;
  Tensor kept = zeros(Type::kBool, {rows, columns});
  for (int64_t i = 0; i < kept.elements(); ++i) {
    const int64_t off = i % columns - i / columns;
    kept.integers[i] = upper ? off >= k : off <= k;
  }
  return {n.e.select(Emitter::known(std::move(kept)), n.in(0), Emitter::known(zeros(n.in(0).type, {})))};
}

Values non_zero(Node& n) {
  const Tensor& x = n.constant(0, "input");
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (x.real(i) != 0) found.push_back(i);
  }
  const auto count = static_cast<int64_t>(found.size());
  Tensor result = zeros(Type::kI64, {x.shape.rank(), count});
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = found[i];
    for (int d = x.shape.rank() - 1; d >= 0; --d) {
      result.integers[d * count + i] = rest % x.shape[d];
      rest /= x.shape[d];
    }
  }
  return {Emitter::known(std::move(result))};
}

}  // namespace

std::vector<LoweringEntry> shape_ops() {
  return {{"Reshape", reshape},
          {"Flatten", flatten},
          {"Squeeze", squeeze},
          {"Unsqueeze", unsqueeze},
          {"Transpose", transpose},
          {"Shape", shape_of},
          {"Size", size_of},
          {"Constant", constant},
          {"ConstantOfShape", constant_of_shape},
          {"Range", range},
          {"Expand", expand},
          {"Tile", tile},
          {"Concat", concat},
          {"Split", split},
          {"DepthToSpace", depth_to_space},
          {"SpaceToDepth", space_to_depth},
          {"EyeLike", eye_like},
          {"Trilu", trilu},
          {"NonZero", non_zero}};
}

}  // namespace trireme::onnx

// ONNX ops that choose elements by index: Slice, Gather, Pad and their kind.
#include <algorithm>
#include <limits>

#include "trireme/onnx/node.h"

namespace trireme::onnx {
namespace {

// Start, end and step as they are for a dim of this extent; ends may be the largest integer.
std::vector<int64_t> slice_indices(int64_t start, int64_t end, int64_t step, int64_t extent) {
  if (step == 0) throw_error("its step is 0");
  if (start < 0) start += extent;
  if (end < 0) end = end < -extent ? -1 : end + extent;
  std::vector<int64_t> indices;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, extent);
    end = std::clamp<int64_t>(end, 0, extent);
    for (int64_t i = start; i < end; i += std::min(step, extent)) indices.push_back(i);
  } else {
    start = std::clamp<int64_t>(start, -1, extent - 1);
    end = std::clamp<int64_t>(end, -1, extent - 1);
    for (int64_t i = start; i > end; i += std::max(step, -extent)) indices.push_back(i);
  }
  return indices;
}

Values slice(Node& n) {
  const std::vector<int64_t> starts = n.integers_until(10, "starts", 1),
                             ends = n.integers_until(10, "ends", 2);
  std::vector<int64_t> axes = n.integers_until(10, "axes", 3), steps = n.integers_until(10, "steps", 4);
  if (n.opset < 10) steps.clear();
  Value x = n.in(0);
  for (size_t i = axes.size(); i < starts.size() && axes.size() == i; ++i)
    axes.push_back(static_cast<int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw_error("{} starts, {} ends, {} axes and {} steps; as many of each expected", starts.size(),
                ends.size(), axes.size(), steps.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    const int dim = Node::dim(axes[i], x.shape.rank());
    x = n.e.take(x, dim, slice_indices(starts[i], ends[i], steps[i], x.shape[dim]));
  }
  return {x};
}

std::vector<int64_t> not_negative(std::vector<int64_t> indices, int64_t extent) {
  for (int64_t& index : indices) {
    if (index < 0) index += extent;
    if (index < 0 || index >= extent) throw_error("index {} of {} elements", index, extent);
  }
  return indices;
}

// Rows of a table by ids that come with the batch: an embedding.
Values gather(Node& n) {
  const Value &x = n.in(0), &index = n.in(1);
  const int dim = n.axis(0);
  Shape to = x.shape.slice(0, dim);
  for (const int64_t extent : index.shape) to.push_back(extent);
  for (int d = dim + 1; d < x.shape.rank(); ++d) to.push_back(x.shape[d]);
  if (index.known) {
    const std::vector<int64_t> indices = not_negative(n.known_integers(1, "indices"), x.shape[dim]);
    return {n.e.reshape(n.e.take(x, dim, indices), to)};
  }
  if (dim != 0 || index.type == Type::kF32)
    throw_error("it gathers along dim {} by indices that are computed; rows (dim 0) expected", dim);
  if (!index.input.empty() && index.id == kNoValue) n.constant(1, "indices");
  const Value table = n.e.reshape(x, {x.shape[0], x.shape.elements(1, x.shape.rank())});
  const ValueId rows = n.e.builder().op("embedding", {n.e.id(table), n.e.ids(index)});
  return {n.e.reshape(n.e.computed(rows), to)};
}

// Element [i, j, k] of the result is x[i, index[i, j, k], k], where dim is 1.
Values gather_elements(Node& n) {
  const Value& x = n.in(0);
  const int dim = n.axis(0);
  const Tensor& index = n.constant(1, "indices");
  const int64_t extent = x.shape[dim];
  if (index.shape.rank() != x.shape.rank())
    throw_error("{} indices of {}", to_string(index.shape), to_string(x.shape));
  const std::vector<int64_t> at = not_negative(index.integers, extent);
  if (x.known) {
    return {Emitter::known(rearranged(*x.known, index.shape, [&](int64_t i) {
      int64_t from = 0, rest = i, stride = 1;
      for (int d = x.shape.rank() - 1; d >= 0; --d) {
        const int64_t place = rest % index.shape[d];
        if (place >= x.shape[d] && d != dim)
          throw_error("{} indices of {}", to_string(index.shape), to_string(x.shape));
        from += (d == dim ? at[i] : place) * stride;
        rest /= index.shape[d];
        stride *= x.shape[d];
      }
      return from;
    }))};
  }
  // The sum over what is chosen of each line, in which one element is not zero.
  Value lines = x;
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (d != dim) lines = n.e.slice(lines, d, 0, index.shape[d]);
  }
  std::vector<int64_t> apart(index.shape.begin(), index.shape.end());
  apart.insert(apart.begin() + dim + 1, extent);
  Tensor chosen = zeros(Type::kBool, Shape(std::span<const int64_t>(apart)));
  const int64_t inner = index.shape.elements(dim + 1, index.shape.rank());
  for (int64_t i = 0; i < index.elements(); ++i)
    chosen.integers[(i / inner * extent + at[i]) * inner + i % inner] = 1;
  std::vector<int64_t> one(lines.shape.begin(), lines.shape.end());
  one.insert(one.begin() + dim, 1);
  const Value spread = n.e.expand(n.e.reshape(lines, Shape(std::span<const int64_t>(one))), chosen.shape);
  return {n.e.reduce(n.e.select(Emitter::known(std::move(chosen)), spread, Emitter::scalar(0)), "sum",
                     {dim + 1})};
}

Values gather_nd(Node& n) {
  const Value& x = n.in(0);
  const Tensor& index = n.constant(1, "indices");
  const auto batch = static_cast<int>(n.integer("batch_dims", 0));
  const int depth = index.shape.rank() == 0 ? 0 : static_cast<int>(index.shape.back());
  if (batch < 0 || depth < 1 || batch + depth > x.shape.rank() || batch >= index.shape.rank())
    throw_error("{} indices of {} with {} dims of the batch", to_string(index.shape), to_string(x.shape),
                batch);
  // As slices of one dim: that of the batch and of what is chosen from.
  const int64_t inner = x.shape.elements(batch + depth, x.shape.rank()),
                in_row = x.shape.elements(batch, batch + depth);
  const int64_t rows = x.shape.elements(0, batch),
                per_row = index.elements() / depth / std::max<int64_t>(rows, 1);
  std::vector<int64_t> flat;
  for (int64_t i = 0; i < rows * per_row; ++i) {
    int64_t at = 0;
    for (int d = 0; d < depth; ++d)
      at = at * x.shape[batch + d] + not_negative({index.integers[i * depth + d]}, x.shape[batch + d])[0];
    flat.push_back(i / per_row * in_row + at);
  }
  Shape to = index.shape.slice(0, index.shape.rank() - 1);
  for (int d = batch + depth; d < x.shape.rank(); ++d) to.push_back(x.shape[d]);
  return {n.e.reshape(n.e.take(n.e.reshape(x, {rows * in_row, inner}), 0, flat), to)};
}

Values compress(Node& n) {
  const Tensor& kept = n.constant(1, "condition");
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < kept.elements(); ++i) {
    if (kept.real(i) != 0) indices.push_back(i);
  }
  if (n.has_attribute("axis")) return {n.e.take(n.in(0), n.axis(0), indices)};
  return {n.e.take(n.e.reshape(n.in(0), {n.in(0).shape.elements()}), 0, indices)};
}

Values reverse_sequence(Node& n) {
  const Value& x = n.in(0);
  const int batch = Node::dim(n.integer("batch_axis", 1), x.shape.rank()),
            time = Node::dim(n.integer("time_axis", 0), x.shape.rank());
  const std::vector<int64_t> lengths = n.known_integers(1, "sequence_lens");
  if (static_cast<int64_t>(lengths.size()) != x.shape[batch] || batch == time)
    throw_error("{} lengths for {}", lengths.size(), to_string(x.shape));
  std::vector<Value> rows;
  for (int64_t row = 0; row < x.shape[batch]; ++row) {
    std::vector<int64_t> order;
    for (int64_t t = 0; t < x.shape[time]; ++t) order.push_back(t < lengths[row] ? lengths[row] - 1 - t : t);
    rows.push_back(n.e.take(n.e.slice(x, batch, row, 1), time, order));
  }
  return {n.e.concat(rows, batch)};
}

// Where index `at` of a dim that was padded comes from; −1: from the padding.
int64_t mirrored(int64_t at, int64_t extent, const std::string& mode) {
  if (mode == "edge") return std::clamp<int64_t>(at, 0, extent - 1);
  if (extent == 1) return 0;
  const int64_t period = 2 * (extent - 1);
  at = (at % period + period) % period;
  return at < extent ? at : period - at;
}

Values pad(Node& n) {
  Value x = n.in(0);
  const std::string mode = n.text("mode", "constant");
  const std::vector<int64_t> pads =
      n.opset < 11 ? n.integers(n.opset < 2 ? "paddings" : "pads") : n.known_integers(1, "pads");
  const double value = n.opset < 11 ? n.real("value", 0) : n.has(2) ? n.known_real(2, "value") : 0;
  if (mode != "constant" && mode != "edge" && mode != "reflect")
    throw_error("its mode '{}' is not supported", mode);
  std::vector<int64_t> axes;
  if (n.opset >= 18 && n.has(3)) axes = n.known_integers(3, "axes");
  for (int d = 0; !(n.opset >= 18 && n.has(3)) && d < x.shape.rank(); ++d) axes.push_back(d);
  if (pads.size() != 2 * axes.size())
    throw_error("{} pads for {} dims; two for each expected", pads.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int dim = Node::dim(axes[i], x.shape.rank());
    const int64_t low = pads[i], high = pads[i + axes.size()], extent = x.shape[dim];
    if (std::abs(low) > (int64_t{1} << 40) || std::abs(high) > (int64_t{1} << 40))
      throw_error("pads of {} and {}", low, high);
    if (mode == "constant") {
      x = n.e.pad(x, dim, low, high, value);
      continue;
    }
    if (low == 0 && high == 0) continue;
    if (extent == 0 || low + high + extent > kMostFolded)
      throw_error("pads of {} and {} around {} elements", low, high, extent);
    std::vector<int64_t> from;
    for (int64_t at = -low; at < extent + high; ++at) from.push_back(mirrored(at, extent, mode));
    x = n.e.take(x, dim, from);
  }
  return {x};
}

// 1 where the index is the class: a table of its own, so that indices need not be known.
Values one_hot(Node& n) {
  const Tensor &index = n.constant(0, "indices"), &values = n.constant(2, "values");
  const auto depth = static_cast<int64_t>(n.known_real(1, "depth"));
  if (depth < 0 || values.elements() != 2)
    throw_error("a depth of {} and {} values", depth, values.elements());
  const int rank = index.shape.rank() + 1;
  const int dim = Node::dim(n.integer("axis", -1), rank);
  std::vector<int64_t> extents(index.shape.begin(), index.shape.end());
  extents.insert(extents.begin() + dim, depth);
  if (rank > Shape::kMaxDims) throw_error("a shape of {} dims", rank);
  const int64_t inner = index.shape.elements(dim, index.shape.rank());
  return {Emitter::known(rearranged(values, Shape(std::span<const int64_t>(extents)), [&](int64_t i) {
    const double wanted = index.real(i / inner / depth * inner + i % inner);
    const auto found = static_cast<double>(i / inner % depth);
    return static_cast<int64_t>(wanted == found || wanted + static_cast<double>(depth) == found);
  }))};
}

Values cum_sum(Node& n) {
  const Value& x = n.in(0);
  const int dim = Node::dim(static_cast<int64_t>(n.known_real(1, "axis")), x.shape.rank());
  const bool reverse = n.integer("reverse", 0) != 0, exclusive = n.integer("exclusive", 0) != 0;
  const int64_t extent = x.shape[dim];
  Tensor ones = zeros(Type::kF32, {extent, extent});
  for (int64_t from = 0; from < extent; ++from) {
    for (int64_t to = 0; to < extent; ++to) {
      const bool before = reverse ? from > to : from < to;
      ones.reals[from * extent + to] = before || (from == to && !exclusive);
    }
  }
  if (!x.known) return {n.e.along(x, dim, ones)};
  Tensor result = zeros(x.type, x.shape);
  const int64_t inner = x.shape.elements(dim + 1, x.shape.rank());
  for (int64_t i = 0; i < x.shape.elements(); ++i) {
    double sum = 0;
    int64_t count = 0;
    const int64_t to = i / inner % extent;
    for (int64_t from = 0; from < extent; ++from) {
      if (ones.reals[from * extent + to] == 0) continue;
      const int64_t at = i + (from - to) * inner;
      is_real(x.type) ? void(sum += x.known->reals[at]) : void(count += x.known->integers[at]);
    }
    is_real(x.type) ? store(result, i, sum) : store(result, i, count);
  }
  return {Emitter::known(std::move(result))};
}

// Updates in the place of elements of what is known; of weights and activations they are not supported.
Values scatter_elements(Node& n) {
  const Tensor &x = n.constant(0, "data"), &index = n.constant(1, "indices"),
               &updates = n.constant(2, "updates");
  const int dim = n.axis(0);
  const std::string how = n.text("reduction", "none");
  if (how != "none" && how != "add" && how != "mul") throw_error("its reduction '{}' is not supported", how);
  if (index.shape != updates.shape || index.shape.rank() != x.shape.rank())
    throw_error("{} updates at {} places", to_string(updates.shape), to_string(index.shape));
  const std::vector<int64_t> at = not_negative(index.integers, x.shape[dim]);
  Tensor result = x;
  for (int64_t i = 0; i < index.elements(); ++i) {
    int64_t to = 0, rest = i, stride = 1;
    for (int d = x.shape.rank() - 1; d >= 0; --d) {
      const int64_t place = d == dim ? at[i] : rest % index.shape[d];
      if (place >= x.shape[d]) throw_error("{} updates of {}", to_string(updates.shape), to_string(x.shape));
      to += place * stride;
      rest /= index.shape[d];
      stride *= x.shape[d];
    }
    const double old = result.real(to), more = updates.real(i);
    store(result, to, how == "add" ? old + more : how == "mul" ? old * more : more);
  }
  return {Emitter::known(std::move(result))};
}

}  // namespace

std::vector<LoweringEntry> gather_ops() {
  return {{"Slice", slice},
          {"Gather", gather},
          {"GatherElements", gather_elements},
          {"GatherND", gather_nd},
          {"Compress", compress},
          {"ReverseSequence", reverse_sequence},
          {"Pad", pad},
          {"OneHot", one_hot},
          {"CumSum", cum_sum},
          {"ScatterElements", scatter_elements},
          {"Scatter", scatter_elements}};
}

}  // namespace trireme::onnx

// Cases of the attention ops. The gradient is a function of its inputs alone: o and lse are random there, and
// P is exp(scale · q k − lse), whatever the softmax would be.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "trireme/bench/cases/reference.h"
#include "trireme/ir/pieces.h"

namespace trireme::bench {
namespace attention_reference {
namespace {

// Calls f(b, t, g, r, number of keys that t sees) for each query; it sees the key last(t) and those before.
template <typename Last, typename F>
void for_each_query(const Shape& q, int64_t keys, const Last& last, const F& f) {
  for (int64_t b = 0; b < q[0]; ++b) {
    for (int64_t t = 0; t < q[1]; ++t) {
      const int64_t seen = std::clamp<int64_t>(last(t) + 1, 0, keys);
      for (int64_t g = 0; g < q[2]; ++g) {
        for (int64_t r = 0; r < q[3]; ++r) f(b, t, g, r, seen);
      }
    }
  }
}

// The last key that each query sees, by their positions. −1: none.
std::function<int64_t(int64_t)> last_keys(const Shape& q, int64_t keys, const Attrs& attrs) {
  if (!attrs.integer("causal", 0)) return [=](int64_t) { return keys; };
  const Positions at(attrs, q[1], attrs.integer("offset", keys - q[1])),
      key_at = Positions::of_keys(attrs, keys);
  return [=](int64_t t) {
    int64_t last = -1;
    while (last + 1 < keys && key_at[last + 1] <= at[t]) ++last;
    return last;
  };
}

// Of the rows of scores of q[b t g r d]: [b g r t].
Shape stats_shape(const Shape& q) {
  return {q[0], q[2], q[3], q[1]};
}

template <typename Last>
RefTensors attend(const RefTensors& in, const Attrs& attrs, const Last& last) {
  const RefTensor &q = in[0], &k = in[1], &v = in[2];
  const double scale = attrs.real("scale");
  const int64_t width = q.shape[4];
  RefTensor o = RefTensor::zeros(q.shape, q.dtype), lse = RefTensor::zeros(stats_shape(q.shape));
  for_each_query(q.shape, k.shape[1], last, [&](int64_t b, int64_t t, int64_t g, int64_t r, int64_t seen) {
    std::vector<double> score(seen);
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t s = 0; s < seen; ++s) {
      for (int64_t d = 0; d < width; ++d) score[s] += scale * q.at({b, t, g, r, d}) * k.at({b, s, g, d});
      top = std::max(top, score[s]);
    }
    for (double one : score) sum += std::exp(one - top);
    lse.at({b, g, r, t}) = top + std::log(sum);
    for (int64_t s = 0; s < seen; ++s) {
      const double p = std::exp(score[s] - top) / sum;
      for (int64_t d = 0; d < width; ++d) o.at({b, t, g, r, d}) += p * v.at({b, s, g, d});
    }
  });
  return {o, lse};
}

RefTensors attention_reference(const RefTensors& in, const Attrs& attrs) {
  return attend(in, attrs, last_keys(in[0].shape, in[1].shape[1], attrs));
}

// The part of x that is its row `row` alone.
RefTensor row_of(const RefTensor& x, double row) {
  Shape shape = x.shape;
  shape.set(0, 1);
  RefTensor one = RefTensor::zeros(shape, x.dtype);
  std::copy_n(x.values.begin() + static_cast<int64_t>(row) * shape.elements(), shape.elements(),
              one.values.begin());
  return one;
}

RefTensors attention_at_reference(const RefTensors& in, const Attrs& attrs) {
  RefTensor o = RefTensor::zeros(in[0].shape, in[0].dtype);
  const auto each = static_cast<int64_t>(o.values.size()) / o.shape[0];
  for (int64_t b = 0; b < o.shape[0]; ++b) {
    const double line = in[3].values[b], position = in[4].values[b];
    const RefTensor own =
        attend({row_of(in[0], static_cast<double>(b)), row_of(in[1], line), row_of(in[2], line)}, attrs,
               [&](int64_t t) { return t + static_cast<int64_t>(position); })[0];
    std::ranges::copy(own.values, o.values.begin() + b * each);
  }
  return {o};
}

RefTensors attention_grad_reference(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &grad = in[0], &q = in[1], &k = in[2], &v = in[3], &o = in[4], &lse = in[5];
  const double scale = attrs.real("scale");
  const int64_t width = q.shape[4];
  RefTensor dq = RefTensor::zeros(q.shape, q.dtype);
  RefTensor dk = RefTensor::zeros(k.shape, k.dtype), dv = RefTensor::zeros(v.shape, v.dtype);
  const auto last = last_keys(q.shape, k.shape[1], attrs);
  for_each_query(q.shape, k.shape[1], last, [&](int64_t b, int64_t t, int64_t g, int64_t r, int64_t seen) {
    double delta = 0;
    for (int64_t d = 0; d < width; ++d) delta += grad.at({b, t, g, r, d}) * o.at({b, t, g, r, d});
    for (int64_t s = 0; s < seen; ++s) {
      double score = 0, dp = 0;
      for (int64_t d = 0; d < width; ++d) {
        score += scale * q.at({b, t, g, r, d}) * k.at({b, s, g, d});
        dp += grad.at({b, t, g, r, d}) * v.at({b, s, g, d});
      }
      const double p = std::exp(score - lse.at({b, g, r, t}));
      const double ds = scale * p * (dp - delta);
      for (int64_t d = 0; d < width; ++d) {
        dv.at({b, s, g, d}) += p * grad.at({b, t, g, r, d});
        dk.at({b, s, g, d}) += ds * q.at({b, t, g, r, d});
        dq.at({b, t, g, r, d}) += ds * k.at({b, s, g, d});
      }
    }
  });
  return {dq, dk, dv};
}

// Keys that nobody sees, as nobody sees them: cut off.
RefTensor cut_keys(const RefTensor& x, int64_t length) {
  RefTensor cut = RefTensor::zeros({1, length, x.shape[2], x.shape[3]}, x.dtype);
  std::copy_n(x.values.begin(), cut.values.size(), cut.values.begin());
  return cut;
}

void put_row(const RefTensor& row, int64_t b, RefTensor& whole) {
  const auto each = static_cast<int64_t>(whole.values.size()) / whole.shape[0];
  std::ranges::copy(row.values, whole.values.begin() + b * each);
}

RefTensors attention_padded_reference(const RefTensors& in, const Attrs& attrs) {
  RefTensor o = RefTensor::zeros(in[0].shape, in[0].dtype), lse = RefTensor::zeros(stats_shape(in[0].shape));
  for (int64_t b = 0; b < in[0].shape[0]; ++b) {
    const auto row = static_cast<double>(b);
    const auto length = static_cast<int64_t>(in[3].values[b]);
    const RefTensors own = attention_reference(
        {row_of(in[0], row), cut_keys(row_of(in[1], row), length), cut_keys(row_of(in[2], row), length)},
        attrs);
    put_row(own[0], b, o);
    put_row(own[1], b, lse);
  }
  return {o, lse};
}

RefTensors attention_padded_grad_reference(const RefTensors& in, const Attrs& attrs) {
  RefTensors all = {RefTensor::zeros(in[1].shape, in[1].dtype), RefTensor::zeros(in[2].shape, in[2].dtype),
                    RefTensor::zeros(in[3].shape, in[3].dtype)};
  for (int64_t b = 0; b < in[1].shape[0]; ++b) {
    const auto row = static_cast<double>(b);
    const auto length = static_cast<int64_t>(in[6].values[b]);
    const RefTensors own = attention_grad_reference(
        {row_of(in[0], row), row_of(in[1], row), cut_keys(row_of(in[2], row), length),
         cut_keys(row_of(in[3], row), length), row_of(in[4], row), row_of(in[5], row)},
        attrs);
    for (size_t i = 0; i < own.size(); ++i) put_row(own[i], b, all[i]);
  }
  return all;
}

RefTensors in_f32(RefTensors results) {
  for (RefTensor& result : results) result.dtype = DType::f32;
  return results;
}
RefTensors attention_part_reference(const RefTensors& in, const Attrs& attrs) {
  return in_f32(attention_reference(in, attrs));
}
RefTensors attention_part_grad_reference(const RefTensors& in, const Attrs& attrs) {
  return in_f32(attention_grad_reference(in, attrs));
}

RefTensors attention_merge_reference(const RefTensors& in, const Attrs&) {
  RefTensor o = RefTensor::zeros(in[0].shape), lse = RefTensor::zeros(in[1].shape);
  for_each_query(
      in[0].shape, 1, [](int64_t) { return 0; },
      [&](int64_t b, int64_t t, int64_t g, int64_t r, int64_t) {
        const double e1 = std::exp(in[1].at({b, g, r, t})), e2 = std::exp(in[3].at({b, g, r, t}));
        lse.at({b, g, r, t}) = std::log(e1 + e2);
        for (int64_t d = 0; d < in[0].shape[4]; ++d)
          o.at({b, t, g, r, d}) =
              (e1 * in[0].at({b, t, g, r, d}) + e2 * in[2].at({b, t, g, r, d})) / (e1 + e2);
      });
  return {o, lse};
}

// Part `part` of the last dim of x[b t (3 g d)], as attention takes it.
RefTensor part_of_packed(const RefTensor& x, int64_t width, int64_t part) {
  const int64_t each = x.shape[2] / 3;
  RefTensor result = RefTensor::zeros({x.shape[0], x.shape[1], each / width, width}, x.dtype);
  for (int64_t row = 0; row < x.shape[0] * x.shape[1]; ++row) {
    for (int64_t i = 0; i < each; ++i) result.values[row * each + i] = x.values[(3 * row + part) * each + i];
  }
  if (part == 0) result.shape = {result.shape[0], result.shape[1], result.shape[2], 1, width};  // q has r
  return result;
}

RefTensors attention_packed_reference(const RefTensors& in, const Attrs& attrs) {
  const int64_t width = attrs.integer("width");
  return attention_reference(
      {part_of_packed(in[0], width, 0), part_of_packed(in[0], width, 1), part_of_packed(in[0], width, 2)},
      attrs);
}

RefTensors attention_packed_grad_reference(const RefTensors& in, const Attrs& attrs) {
  const int64_t width = attrs.integer("width");
  const RefTensors parts =
      attention_grad_reference({in[0], part_of_packed(in[1], width, 0), part_of_packed(in[1], width, 1),
                                part_of_packed(in[1], width, 2), in[2], in[3]},
                               attrs);
  RefTensor all = RefTensor::zeros(in[1].shape, in[1].dtype);
  const int64_t each = in[1].shape[2] / 3;
  for (int64_t row = 0; row < in[1].shape[0] * in[1].shape[1]; ++row) {
    for (int64_t part = 0; part < 3; ++part) {
      for (int64_t i = 0; i < each; ++i)
        all.values[(3 * row + part) * each + i] = parts[part].values[row * each + i];
    }
  }
  return {all};
}

struct Size {
  const char* label;
  int64_t b, t, s, g, r, d;
};

OpCase attention_case(const Size& size, int64_t causal) {
  const Shape q{size.b, size.t, size.g, size.r, size.d}, k{size.b, size.s, size.g, size.d};
  OpCase one;
  one.op = "attention";
  one.label = std::string(size.label) + (causal ? "_causal" : "");
  one.inputs = {{q}, {k}, {k}};
  one.attrs = {{"causal", causal}, {"scale", 1 / std::sqrt(static_cast<double>(size.d))}};
  one.reference = attention_reference;
  return one;
}

// Of `lines` sequences that are kept; the positions are `least` or up to `more` behind it.
OpCase attention_at_case(const Size& size, double least, double more = 0, int64_t lines = 1) {
  OpCase one = attention_case(size, 0);
  one.op = "attention_at";
  one.attrs = {{"scale", one.attrs.real("scale")}};
  for (const size_t kept : {1, 2}) one.inputs[kept].shape.set(0, lines);
  one.inputs.push_back(ids({size.b}, 0, static_cast<double>(lines)));
  one.inputs.push_back(ids({size.b}, least, least + more + 1));
  one.reference = attention_at_reference;
  return one;
}

OpCase attention_grad_case(const Size& size, int64_t causal) {
  OpCase one = attention_case(size, causal);
  const CaseInput q = one.inputs[0], k = one.inputs[1];
  one.op = "attention_grad";
  // lse as of a softmax over scores near zero, so that P is about 1 / s.
  const double lse = std::log(static_cast<double>(size.s));
  one.inputs = {q, q, k, k, q, kept_f32(stats_shape(q.shape), lse - 0.5, lse + 0.5)};
  one.reference = attention_grad_reference;
  return one;
}

// Lengths are drawn from `least` to all keys.
OpCase attention_padded_case(const Size& size, int64_t least) {
  OpCase one = attention_case(size, 0);
  one.op = "attention_padded";
  one.label = fmt::format("{}_from_{}", size.label, least);
  one.attrs = {{"scale", one.attrs.real("scale")}};
  one.inputs.push_back(ids({size.b}, static_cast<double>(least), static_cast<double>(size.s + 1)));
  one.reference = attention_padded_reference;
  return one;
}
OpCase attention_padded_grad_case(const Size& size, int64_t least) {
  OpCase one = attention_padded_case(size, least);
  const CaseInput lengths = one.inputs[3];
  one.inputs = attention_grad_case(size, 0).inputs;
  one.inputs.push_back(lengths);
  one.op = "attention_padded_grad";
  one.reference = attention_padded_grad_reference;
  return one;
}

// The two see about as many keys, or one far more.
OpCase attention_merge_case(const Size& size, double apart) {
  const Shape q{size.b, size.t, size.g, size.r, size.d};
  OpCase one;
  one.op = "attention_merge";
  one.label = size.label;
  const CaseInput o = kept_f32(q);
  one.inputs = {o, kept_f32(stats_shape(q), 1, 2), o, kept_f32(stats_shape(q), 1 + apart, 2 + apart)};
  one.reference = attention_merge_reference;
  one.finite_differences = Differentiable::kNo;
  return one;
}

// q, k and v side by side: as many keys as queries, and none shared.
OpCase attention_packed_case(const Size& size, int64_t causal) {
  OpCase one = attention_case(size, causal);
  one.op = "attention_packed";
  one.inputs = {{{size.b, size.t, 3 * size.g * size.d}}};
  one.attrs.set("width", size.d);
  one.reference = attention_packed_reference;
  one.finite_differences = Differentiable::kNo;
  return one;
}

OpCase attention_packed_grad_case(const Size& size, int64_t causal) {
  OpCase one = attention_grad_case(size, causal);
  one.op = "attention_packed_grad";
  one.inputs = {one.inputs[0], {{size.b, size.t, 3 * size.g * size.d}}, one.inputs[4], one.inputs[5]};
  one.attrs.set("width", size.d);
  one.reference = attention_packed_grad_reference;
  one.finite_differences = Differentiable::kNo;
  return one;
}

}  // namespace
}  // namespace attention_reference

std::vector<OpCase> attention_cases() {
  using namespace attention_reference;
  // Below, at and above the sizes of tiles, of blocks of queries (64) and of keys (128).
  const Size sizes[] = {{"one", 1, 1, 1, 1, 1, 1},
                        {"small", 2, 5, 5, 2, 1, 8},
                        {"odd", 1, 13, 13, 3, 1, 19},
                        {"shared_keys", 2, 17, 17, 2, 3, 16},
                        {"more_keys", 1, 9, 40, 1, 2, 24},
                        {"block", 1, 64, 64, 1, 1, 64},
                        {"over", 1, 67, 67, 2, 1, 33},
                        {"blocks", 1, 150, 150, 1, 2, 20},
                        {"long_keys", 1, 3, 300, 1, 1, 7},
                        {"wide", 1, 30, 30, 1, 1, 130},
                        {"unequal", 1, 70, 131, 1, 1, 12},
                        {"whole_width", 1, 70, 90, 1, 2, 128},
                        {"padded_width", 1, 66, 66, 1, 1, 96},
                        {"no_batch", 0, 4, 4, 1, 1, 8}};
  std::vector<OpCase> cases;
  for (const Size& size : sizes) {
    for (int64_t causal : {0, 1}) {
      cases.push_back(attention_case(size, causal));
      cases.push_back(attention_grad_case(size, causal));
      if (size.s != size.t || size.r != 1) continue;
      cases.push_back(attention_packed_case(size, causal));
      cases.push_back(attention_packed_grad_case(size, causal));
    }
  }
  // More queries than keys: the first queries see none.
  cases.push_back(attention_grad_case({"more_queries", 1, 83, 10, 1, 2, 9}, 0));
  cases.push_back(attention_grad_case({"more_queries", 1, 83, 10, 1, 2, 9}, 1));
  cases.push_back(attention_case({"more_queries", 1, 83, 10, 1, 2, 9}, 0));
  cases.push_back(attention_case({"more_queries", 1, 83, 10, 1, 2, 9}, 1));
  cases.push_back(attention_merge_case({"alike", 2, 5, 0, 2, 3, 19}, 0));
  cases.push_back(attention_merge_case({"apart", 1, 70, 0, 1, 2, 8}, 9));
  // Queries that are stripes of a sequence: inside a vector, over tiles, over blocks.
  const auto striped = [&](const Size& size, int64_t first, int64_t pieces, int64_t stride) {
    for (OpCase one : {attention_case(size, 1), attention_grad_case(size, 1)}) {
      one.attrs.set("offset", first);
      set_pieces(one.attrs, 1, pieces, stride);
      cases.push_back(one);
    }
  };
  striped({"single_stripes", 2, 5, 20, 2, 2, 8}, 3, 5, 4);
  striped({"narrow_stripes", 1, 66, 264, 1, 1, 20}, 3, 22, 12);
  striped({"wide_stripes", 1, 192, 384, 1, 2, 16}, 0, 3, 128);
  striped({"late_stripes", 1, 160, 480, 2, 1, 33}, 64, 5, 96);
  // And keys that are those of another rank, before or behind.
  const auto of_rank = [&](const Size& size, int64_t pieces, int64_t stride, int64_t queries, int64_t keys) {
    for (OpCase one : {attention_case(size, 1), attention_grad_case(size, 1), attention_case(size, 0)}) {
      one.reference = one.op == "attention" ? attention_part_reference : attention_part_grad_reference;
      one.op = one.op == "attention" ? "attention_part" : "attention_part_grad";
      one.finite_differences = Differentiable::kNo;
      one.attrs.set("offset", queries);
      one.attrs.set("key_offset", keys);
      one.attrs.set("key_pieces", pieces);
      one.attrs.set("key_stride", stride);
      if (pieces > 1) set_pieces(one.attrs, 1, pieces, stride);
      cases.push_back(one);
    }
  };
  of_rank({"keys_before", 2, 6, 6, 2, 2, 8}, 3, 8, 4, 2);
  of_rank({"keys_behind", 2, 6, 6, 2, 2, 8}, 3, 8, 2, 4);
  of_rank({"own_keys", 1, 96, 96, 1, 2, 20}, 6, 64, 16, 16);
  of_rank({"wide_behind", 1, 256, 256, 1, 1, 16}, 2, 384, 0, 128);
  of_rank({"run_before", 1, 70, 70, 1, 1, 16}, 1, 70, 70, 0);
  // Scores far apart: the running maximum changes from block to block.
  OpCase steep = attention_case({"steep", 1, 40, 290, 1, 1, 16}, 0);
  steep.attrs.set("scale", 20.0);
  steep.tolerance = 1e-4;
  cases.push_back(steep);

  const std::pair<Size, int64_t> padded[] = {{{"one", 3, 1, 1, 1, 1, 1}, 1},
                                             {{"small", 6, 5, 7, 2, 1, 8}, 1},
                                             {{"shared_keys", 3, 17, 11, 2, 3, 16}, 1},
                                             {{"long", 5, 9, 290, 1, 2, 24}, 1},
                                             {{"blocks", 4, 150, 140, 1, 1, 20}, 120},
                                             {{"no_batch", 0, 4, 4, 1, 1, 8}, 1}};
  for (const auto& [size, least] : padded) {
    cases.push_back(attention_padded_case(size, least));
    cases.push_back(attention_padded_grad_case(size, least));
  }
  cases.push_back(attention_padded_grad_case({"empty", 4, 5, 2, 1, 1, 8}, 0));

  cases.push_back(attention_at_case({"first", 1, 1, 9, 2, 1, 8}, 0));
  cases.push_back(attention_at_case({"middle", 2, 1, 40, 2, 3, 19}, 17));
  cases.push_back(attention_at_case({"lines", 5, 1, 40, 2, 2, 16}, 0, 39, 3));
  cases.push_back(attention_at_case({"long_lines", 3, 4, 290, 1, 2, 24}, 100, 150, 7));
  cases.push_back(attention_at_case({"last", 1, 1, 300, 1, 2, 33}, 299));
  cases.push_back(attention_at_case({"block", 1, 1, 300, 1, 1, 16}, 149));
  cases.push_back(attention_at_case({"some", 1, 5, 290, 1, 1, 12}, 140));
  cases.push_back(attention_at_case({"beyond", 1, 4, 10, 1, 1, 8}, 8));
  return cases;
}

}  // namespace trireme::bench

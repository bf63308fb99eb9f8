// Cases of the ops that replicas exchange gradients with.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "trireme/bench/cases/reference.h"
#include "trireme/ops/code_lengths.h"
#include "trireme/train/parity/largest.h"
#include "trireme/train/parity/singular_parts.h"

namespace trireme::bench {
namespace exchange_reference {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double value(const RefTensor& tensor) {
  return tensor.values[0];
}

RefTensors add_scaled(const RefTensors& in, const Attrs&) {
  RefTensor z = like(in[0]);
  for (size_t i = 0; i < z.values.size(); ++i) z.values[i] = in[0].values[i] + value(in[2]) * in[1].values[i];
  return {z};
}

RefTensors residual(const RefTensors& in, const Attrs&) {
  RefTensor z = like(in[0]);
  for (size_t i = 0; i < z.values.size(); ++i)
    z.values[i] = (in[0].values[i] - in[1].values[i]) / value(in[2]);
  return {z};
}

RefTensors renew(const RefTensors& in, const Attrs&) {
  return {std::isfinite(value(in[2])) ? in[1] : in[0]};
}

RefTensors top_k(const RefTensors& in, const Attrs& attrs) {
  const std::vector<double>& x = in[0].values;
  const std::vector<size_t> order =
      parity::largest_of(x, static_cast<size_t>(attrs.integer("k")), attrs.real("sampled", 0));
  RefTensor values = like(in[0], {attrs.integer("k")}), indices = RefTensor::zeros(values.shape, DType::i32);
  RefTensor rest = in[0];
  for (size_t i = 0; i < order.size(); ++i) {
    values.values[i] = x[order[i]];
    indices.values[i] = static_cast<double>(order[i]);
    rest.values[order[i]] = 0;
  }
  return {values, indices, rest};
}

RefTensors scatter_add(const RefTensors& in, const Attrs& attrs) {
  RefTensor y = like(in[0], {attrs.integer("size")});
  for (size_t i = 0; i < in[0].values.size(); ++i)
    y.values[static_cast<size_t>(in[1].values[i])] += in[0].values[i];
  return {y};
}

RefTensors clear_at(const RefTensors& in, const Attrs&) {
  RefTensor y = in[0];
  for (double index : in[1].values) y.values[static_cast<size_t>(index)] = 0;
  return {y};
}

RefTensors orthogonalise(const RefTensors& in, const Attrs&) {
  RefTensor y = in[0];
  const int64_t rows = y.shape[0], columns = y.shape[1];
  const auto settle = [&](int64_t column) {
    const auto length = [&] {
      double sum = 0;
      for (int64_t i = 0; i < rows; ++i) sum += y.at({i, column}) * y.at({i, column});
      return std::sqrt(sum);
    };
    const double before = length();
    for (int64_t other = 0; other < column; ++other) {
      double product = 0;
      for (int64_t i = 0; i < rows; ++i) product += y.at({i, column}) * y.at({i, other});
      for (int64_t i = 0; i < rows; ++i) y.at({i, column}) -= product * y.at({i, other});
    }
    const double left = length();
    if (left <= 1e-6 * before) return false;
    for (int64_t i = 0; i < rows; ++i) y.at({i, column}) /= left;
    return true;
  };
  for (int64_t column = 0; column < columns; ++column) {
    bool settled = settle(column);
    for (int64_t row = 0; row < rows && !settled; ++row) {
      for (int64_t i = 0; i < rows; ++i) y.at({i, column}) = i == row;
      settled = settle(column);
    }
  }
  return {y};
}

RngKey key_of(const Attrs& attrs, double step) {
  return rng_key(static_cast<double>(attrs.integer("seed")), attrs, step);
}

RefTensors svd_sample(const RefTensors& in, const Attrs& attrs) {
  const int64_t rows = in[0].shape[0], columns = in[0].shape[1], count = attrs.integer("count");
  const RngKey key = key_of(attrs, value(in[1]));
  RefTensor left = like(in[0], {count, rows}), right = like(in[0], {count, columns});
  const std::vector<parity::SingularPart> parts =
      parity::drawn_parts(in[0].values, rows, columns, count, static_cast<double>(uniform(key, 0)));
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = 0; i < rows; ++i) left.at({k, i}) = parts[k].left[i];
    for (int64_t i = 0; i < columns; ++i) right.at({k, i}) = parts[k].right[i];
  }
  return {left, right};
}

// Bit i of packed bytes.
int bit(const RefTensor& bytes, int64_t i) {
  return (static_cast<int>(bytes.values[i / 8]) >> (i % 8)) & 1;
}
void set_bits(RefTensor& bytes, int64_t i, int code) {
  for (int b = 0; code >> b; ++b) bytes.values[(i + b) / 8] += ((code >> b) & 1) << ((i + b) % 8);
}

RefTensors sign_pack(const RefTensors& in, const Attrs& attrs) {
  RefTensor bits = RefTensor::zeros({attrs.integer("bytes")}, DType::u8);
  for (size_t i = 0; i < in[0].values.size(); ++i)
    set_bits(bits, static_cast<int64_t>(i), in[0].values[i] >= 0 ? 1 : 0);
  return {bits};
}

RefTensors sign_vote(const RefTensors& in, const Attrs&) {
  const int64_t rows = in[0].shape[0], bytes = in[0].shape[1];
  RefTensor votes = RefTensor::zeros({bytes}, DType::u8);
  for (int64_t i = 0; i < 8 * bytes; ++i) {
    double sum = 0.5 * (bit(in[0], i) ? 1 : -1);
    for (int64_t row = 0; row < rows; ++row) sum += bit(in[0], row * 8 * bytes + i) ? 1 : -1;
    set_bits(votes, i, sum > 0 ? 1 : 0);
  }
  return {votes};
}

RefTensors sign_unpack(const RefTensors& in, const Attrs& attrs) {
  RefTensor y = RefTensor::zeros({attrs.integer("size")});
  for (int64_t i = 0; i < y.shape[0]; ++i) y.values[i] = bit(in[0], i) ? value(in[1]) : -value(in[1]);
  return {y};
}

RefTensors one_bit_pack(const RefTensors& in, const Attrs& attrs) {
  const int64_t rows = in[0].shape[0], columns = in[0].shape[1], bytes = (columns + 7) / 8;
  RefTensor bits = RefTensor::zeros({attrs.integer("rows"), bytes}, DType::u8);
  RefTensor means = RefTensor::zeros({attrs.integer("rows"), 2});
  for (int64_t row = 0; row < rows; ++row) {
    double sums[2] = {0, 0}, counts[2] = {0, 0};
    for (int64_t i = 0; i < columns; ++i) {
      const double x = in[0].at({row, i});
      sums[x >= 0] += x;
      counts[x >= 0] += 1;
      set_bits(bits, 8 * row * bytes + i, x >= 0 ? 1 : 0);
    }
    for (int side = 0; side < 2; ++side) means.at({row, side}) = counts[side] ? sums[side] / counts[side] : 0;
  }
  return {bits, means};
}

RefTensors one_bit_unpack(const RefTensors& in, const Attrs& attrs) {
  RefTensor x = RefTensor::zeros({attrs.integer("rows"), attrs.integer("columns")});
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    for (int64_t i = 0; i < x.shape[1]; ++i)
      x.at({row, i}) = in[1].at({row, bit(in[0], 8 * row * in[0].shape[1] + i)});
  }
  return {x};
}

RefTensor two_bits(int64_t elements) {
  return RefTensor::zeros({(elements + 3) / 4}, DType::u8);
}

RefTensors threshold_pack(const RefTensors& in, const Attrs&) {
  RefTensor codes = two_bits(in[0].shape[0]);
  for (int64_t i = 0; i < in[0].shape[0]; ++i) {
    const double x = in[0].values[i];
    set_bits(codes, 2 * i, x >= value(in[1]) ? 1 : x <= -value(in[1]) ? 2 : 0);
  }
  return {codes};
}

RefTensors ternary_pack(const RefTensors& in, const Attrs& attrs) {
  RefTensor codes = two_bits(in[0].shape[0]);
  const RngKey key = key_of(attrs, value(in[2]));
  for (int64_t i = 0; i < in[0].shape[0]; ++i) {
    const double x = in[0].values[i];
    const bool kept = uniform(key, i) * value(in[1]) < std::abs(x);
    set_bits(codes, 2 * i, kept ? (x < 0 ? 2 : 1) : 0);
  }
  return {codes};
}

RefTensors ternary_unpack(const RefTensors& in, const Attrs& attrs) {
  RefTensor y = RefTensor::zeros({attrs.integer("size")});
  for (int64_t row = 0; row < in[0].shape[0]; ++row) {
    const int64_t first = 8 * row * in[0].shape[1];
    for (int64_t i = 0; i < y.shape[0]; ++i)
      y.values[i] += value(in[1]) * (bit(in[0], first + 2 * i) - bit(in[0], first + 2 * i + 1));
  }
  return {y};
}

int64_t bucket_bytes(const Attrs& attrs) {
  const int64_t bucket = attrs.integer("bucket"), bits = attrs.integer("bits");
  return attrs.integer("elias", 0) ? elias_bytes(bucket, (1 << (bits - 1)) - 1) : (bucket * bits + 7) / 8;
}

// Levels and signs as Elias' codes, one after another from bit `at` on.
void set_elias(RefTensor& codes, int64_t& at, int level, bool minus) {
  int below = 0;
  while (2 << below <= level + 1) ++below;
  at += below;
  set_bits(codes, at++, 1);
  for (int b = 0; b < below; ++b) set_bits(codes, at++, (level + 1) >> b & 1);
  if (level > 0) set_bits(codes, at++, minus ? 1 : 0);
}

RefTensors quantise(const RefTensors& in, const Attrs& attrs) {
  const int64_t n = in[0].shape[0], bucket = attrs.integer("bucket"), bits = attrs.integer("bits");
  const int64_t count = (n + bucket - 1) / bucket, bytes = bucket_bytes(attrs);
  const bool elias = attrs.integer("elias", 0) != 0;
  const double levels = std::pow(2.0, static_cast<double>(bits - 1)) - 1;
  const RngKey key = key_of(attrs, value(in[1]));
  RefTensor codes = RefTensor::zeros({count * bytes}, DType::u8), norms = RefTensor::zeros({count});
  for (int64_t i = 0; i < n; ++i) norms.values[i / bucket] += in[0].values[i] * in[0].values[i];
  for (double& norm : norms.values) {
    const float rounded = static_cast<float>(std::sqrt(norm));
    const bool less = elias && static_cast<double>(rounded) < std::sqrt(norm);
    norm = less ? std::nextafter(rounded, std::numeric_limits<float>::infinity()) : rounded;
  }
  double number = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = in[0].values[i], norm = norms.values[i / bucket];
    if (norm == 0) continue;
    const double level = std::min(levels, std::abs(x) * (levels / norm));
    if (elias) {
      if (i % bucket == 0) {
        number = uniform(key, i / bucket);
        at = i / bucket * bytes * 8;
      }
      number += level - std::floor(level);
      set_elias(codes, at, static_cast<int>(std::floor(level)) + (number >= 1), x < 0);
      if (number >= 1) number -= 1;
      continue;
    }
    const int rounded = static_cast<int>(std::floor(level)) + (uniform(key, i) < level - std::floor(level));
    set_bits(codes, i / bucket * bytes * 8 + i % bucket * bits, rounded + (x < 0 ? 1 << (bits - 1) : 0));
  }
  return {codes, norms};
}

// Bits past the end are 0, and so are elements whose code does not end in time.
RefTensors dequantise_elias(const RefTensors& in, const Attrs& attrs) {
  const int64_t bucket = attrs.integer("bucket"), bits = attrs.integer("bits"), bytes = bucket_bytes(attrs);
  const int levels = (1 << (bits - 1)) - 1;
  RefTensor y = RefTensor::zeros({attrs.integer("size")});
  for (int64_t row = 0; row < in[0].shape[0]; ++row) {
    int64_t at = 0, end = 0;
    const auto next = [&](int64_t i) {
      if (i % bucket == 0) at = 8 * (row * in[0].shape[1] + i / bucket * bytes), end = at + 8 * bytes;
      const auto here = [&](int64_t b) { return at + b < end ? bit(in[0], at + b) : 0; };
      int below = 0;
      while (below < bits && !here(below)) ++below;
      if (below == bits) return 0;
      int level = 1 << below;
      for (int b = 0; b < below; ++b) level += here(below + 1 + b) << b;
      level = std::min(levels, level - 1);
      const int sign = level > 0 && here(2 * below + 1) ? -1 : 1;
      at += 2 * below + (level > 0 ? 2 : 1);
      return sign * level;
    };
    for (int64_t i = 0; i < y.shape[0]; ++i) y.values[i] += in[1].at({row, i / bucket}) * next(i) / levels;
  }
  return {y};
}

RefTensors dequantise(const RefTensors& in, const Attrs& attrs) {
  const int64_t bucket = attrs.integer("bucket"), bits = attrs.integer("bits"), bytes = bucket_bytes(attrs);
  const double levels = std::pow(2.0, static_cast<double>(bits - 1)) - 1;
  RefTensor y = RefTensor::zeros({attrs.integer("size")});
  for (int64_t row = 0; row < in[0].shape[0]; ++row) {
    for (int64_t i = 0; i < y.shape[0]; ++i) {
      const int64_t first = 8 * row * in[0].shape[1] + i / bucket * bytes * 8 + i % bucket * bits;
      double level = 0;
      for (int64_t b = 0; b + 1 < bits; ++b) level += bit(in[0], first + b) << b;
      const double norm = in[1].at({row, i / bucket});
      y.values[i] += (bit(in[0], first + bits - 1) ? -1 : 1) * norm * level / levels;
    }
  }
  return {y};
}

// Bits past the end are 0, and what would be no index is the last one.
RefTensors rice_unpack(const RefTensors& in, const Attrs& attrs) {
  const int64_t rows = in[0].shape[0], bytes = in[0].shape[1], low_bits = attrs.integer("low_bits");
  RefTensor indices = RefTensor::zeros({rows, attrs.integer("count")}, DType::i32);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = 0, next = 0;
    const auto take = [&] { return at < 8 * bytes ? bit(in[0], 8 * row * bytes + at++) : 0; };
    for (int64_t i = 0; i < indices.shape[1]; ++i) {
      while (take()) next += int64_t{1} << low_bits;
      for (int64_t b = 0; b < low_bits; ++b) next += int64_t{take()} << b;
      next = std::min(next, attrs.integer("size") - 1);
      indices.at({row, i}) = static_cast<double>(next++);
    }
  }
  return {indices};
}

RefTensors rice_pack(const RefTensors& in, const Attrs& attrs) {
  const int64_t count = in[0].shape[0], low_bits = attrs.integer("low_bits");
  RefTensor codes = RefTensor::zeros({rice_bytes(count, attrs.integer("size"), low_bits)}, DType::u8);
  int64_t at = 0, next = 0;
  for (double index : in[0].values) {
    const int64_t gap = static_cast<int64_t>(index) - next;
    for (int64_t one = 0; one < gap >> low_bits; ++one) set_bits(codes, at++, 1);
    ++at;
    for (int64_t b = 0; b < low_bits; ++b) set_bits(codes, at++, gap >> b & 1);
    next = static_cast<int64_t>(index) + 1;
  }
  return {codes};
}

CaseInput scalar(double number) {
  return kept_f32({}, number, number);
}
CaseInput bytes(Shape shape) {
  return {shape, DType::u8, 0, 256};
}

}  // namespace
}  // namespace exchange_reference

std::vector<OpCase> exchange_cases() {
  using namespace exchange_reference;
  std::vector<OpCase> cases;
  const auto add = [&](const char* op, const std::string& label, std::vector<CaseInput> inputs, Attrs attrs,
                       RefTensors (*reference)(const RefTensors&, const Attrs&), double tolerance = 1e-6) {
    cases.push_back(
        {op, label, std::move(inputs), std::move(attrs), reference, tolerance, Differentiable::kNo});
  };
  for (const int64_t n : {0, 1, 7, 1023, 40000}) {
    const std::string label = std::to_string(n);
    const CaseInput x = kept_f32({n});
    add("add_scaled", label, {x, x, scalar(-3)}, {}, add_scaled);
    add("residual", label, {x, x, scalar(8)}, {}, residual);
    add("renew", label, {x, x, scalar(2)}, {}, renew);
    add("renew", label + "_skipped", {x, x, scalar(kNan)}, {}, renew);
    for (const int64_t k : std::set<int64_t>{0, (n + 9) / 10, n})
      add("top_k", label + "_" + std::to_string(k), {x}, {{"k", k}}, top_k);
    for (const int64_t percent : {1, 30, 100})
      add("top_k", fmt::format("{}_sampled_{}", n, percent), {x},
          {{"k", (n + 9) / 10}, {"sampled", static_cast<double>(percent) / 100}}, top_k);
    add("sign_pack", label, {x}, {{"bytes", (n + 7) / 8 + 3}}, sign_pack);
    add("sign_unpack", label, {bytes({(n + 7) / 8}), scalar(0.25)}, {{"size", n}}, sign_unpack);
    add("threshold_pack", label, {x, scalar(0.5)}, {}, threshold_pack);
    const Attrs drawn{{"seed", int64_t{7}}, {"stream", int64_t{123456789}}};
    add("ternary_pack", label, {x, scalar(0.75), scalar(3)}, drawn, ternary_pack);
    add("ternary_unpack", label, {bytes({3, (n + 3) / 4}), scalar(0.5)}, {{"size", n}}, ternary_unpack);
    for (const int64_t bits : {2, 4, 7}) {
      const int64_t bucket = n == 7 ? 3 : 512, count = (n + bucket - 1) / bucket;
      Attrs attrs{{"bits", bits}, {"bucket", bucket}, {"seed", int64_t{7}}, {"stream", int64_t{99}}};
      const std::string with_bits = label + "_bits_" + std::to_string(bits);
      Attrs elias = attrs;
      elias.set("elias", int64_t{1});
      add("quantise", with_bits, {x, scalar(2)}, attrs, quantise);
      add("quantise", with_bits + "_elias", {x, scalar(2)}, elias, quantise);
      attrs.set("size", n);
      elias.set("size", n);
      const CaseInput norms = kept_f32({3, count}, 0, 1);
      add("dequantise", with_bits, {bytes({3, count * bucket_bytes(attrs)}), norms}, attrs, dequantise);
      add("dequantise", with_bits + "_elias", {bytes({3, count * bucket_bytes(elias)}), norms}, elias,
          dequantise_elias);
    }
  }
  // Few different magnitudes: ties, also with zeros.
  add("top_k", "ties", {{Shape{5000}, DType::f32, 0.5, 0.5, CaseInput::Format::kKept}}, {{"k", int64_t{77}}},
      top_k);
  add("top_k", "zeros", {kept_f32({100}, 0, 0)}, {{"k", int64_t{9}}}, top_k);
  // So many that a guess is made: a good one, and where all are alike.
  const CaseInput many = kept_f32({300001});
  add("top_k", "guessed", {many}, {{"k", int64_t{300}}}, top_k);
  add("top_k", "guessed_most", {many}, {{"k", int64_t{299000}}}, top_k);
  add("top_k", "guessed_alike", {{Shape{300001}, DType::f32, 0.5, 0.5, CaseInput::Format::kKept}},
      {{"k", int64_t{300}}}, top_k);
  // One index to a row: those of a row ascend.
  for (const int64_t n : {1, 1000, 40000}) {
    const std::string label = std::to_string(n);
    const double end = static_cast<double>(n);
    add("scatter_add", label, {kept_f32({6, 1}), ids({6, 1}, 0, end)}, {{"size", n}}, scatter_add);
    add("clear_at", label, {kept_f32({n}), ids({1}, 0, end)}, {}, clear_at);
  }
  // Indices of a row ascend, so that there is one; and bytes as chance has them.
  for (const auto& [size, low_bits] :
       {std::pair<int64_t, int64_t>{1, 0}, {1000, 3}, {40000, 9}, {40000, 0}}) {
    const std::string label = fmt::format("{}_{}", size, low_bits);
    const double end = static_cast<double>(size);
    add("rice_pack", label, {ids({1}, 0, end)}, {{"size", size}, {"low_bits", low_bits}}, rice_pack);
    const int64_t count = (size + 9) / 10;
    add("rice_unpack", label, {bytes({3, rice_bytes(count, size, low_bits)})},
        {{"size", size}, {"low_bits", low_bits}, {"count", count}}, rice_unpack);
  }
  add("rice_pack", "none", {ids({0}, 0, 1)}, {{"size", int64_t{9}}, {"low_bits", int64_t{2}}}, rice_pack);
  add("scatter_add", "none", {kept_f32({2, 0}), ids({2, 0}, 0, 1)}, {{"size", int64_t{5}}}, scatter_add);
  add("clear_at", "none", {kept_f32({5}), ids({0}, 0, 1)}, {}, clear_at);
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 5}, Shape{33, 4}, Shape{1000, 2}, Shape{4, 0}})
    add("orthogonalise", std::to_string(shape[0]) + "x" + std::to_string(shape[1]), {kept_f32(shape)}, {},
        orthogonalise, 1e-4);
  add("orthogonalise", "zeros", {kept_f32({6, 3}, 0, 0)}, {}, orthogonalise);
  add("orthogonalise", "equal", {kept_f32({6, 3}, 2, 2)}, {}, orthogonalise);
  for (const Shape& shape :
       {Shape{1, 1}, Shape{5, 5}, Shape{4, 9}, Shape{21, 6}, Shape{30, 41}, Shape{41, 30}}) {
    for (const int64_t count : {1, 3, 6}) {
      if (count > std::min(shape[0], shape[1])) continue;
      const std::string label = std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
      add("svd_sample", label + "_" + std::to_string(count), {kept_f32(shape), scalar(3)},
          {{"count", count}, {"seed", int64_t{7}}, {"stream", int64_t{99}}}, svd_sample, 1e-4);
    }
  }
  for (const int64_t rows : {1, 2, 3, 4})
    add("sign_vote", std::to_string(rows), {bytes({rows, 37})}, {}, sign_vote);
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 8}, Shape{5, 21}, Shape{0, 4}, Shape{4, 0}}) {
    const std::string label = std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
    add("one_bit_pack", label, {kept_f32(shape)}, {{"rows", shape[0] + 2}}, one_bit_pack);
    add("one_bit_unpack", label, {bytes({shape[0] + 2, (shape[1] + 7) / 8}), kept_f32({shape[0] + 2, 2})},
        {{"rows", shape[0]}, {"columns", shape[1]}}, one_bit_unpack);
  }
  add("one_bit_pack", "zeros", {kept_f32({2, 9}, 0, 0)}, {{"rows", int64_t{2}}}, one_bit_pack);
  return cases;
}

}  // namespace trireme::bench

// Cases of embedding, rope, cross_entropy and dropout.
#include <algorithm>
#include <cmath>

#include "trireme/bench/cases/reference.h"
#include "trireme/ir/pieces.h"

namespace trireme::bench {
namespace language_reference {
namespace {

RefTensors embedding(const RefTensors& in, const Attrs& attrs) {
  const int64_t rows = in[0].shape[0], width = in[0].shape[1], offset = attrs.integer("row_offset", 0);
  Shape shape = in[1].shape;
  shape.push_back(width);
  RefTensor y = like(in[0], shape);
  for (size_t i = 0; i < in[1].values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(in[1].values[i]) - offset;
    if (row < 0 || row >= rows) continue;
    for (int64_t k = 0; k < width; ++k) y.values[i * width + k] = in[0].values[row * width + k];
  }
  return {y};
}

RefTensors embedding_grad(const RefTensors& in, const Attrs& attrs) {
  const int64_t rows = attrs.integer("rows"), width = in[0].shape.back(),
                offset = attrs.integer("row_offset", 0);
  RefTensor dtable = like(in[0], {rows, width});
  for (size_t i = 0; i < in[1].values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(in[1].values[i]) - offset;
    if (row < 0 || row >= rows) continue;
    for (int64_t k = 0; k < width; ++k) dtable.values[row * width + k] += in[0].values[i * width + k];
  }
  return {dtable};
}

template <typename First>
RefTensors rotated(const RefTensors& in, const Attrs& attrs, const First& first_of) {
  const Shape& shape = in[0].shape;
  const int64_t length = shape[1], width = shape.back(), half = width / 2;
  const int64_t inner = shape.elements(2, shape.rank());
  RefTensor y = like(in[0]);
  for (int64_t row = 0; row < shape.elements() / width; ++row) {
    const int64_t at = row * width / inner;
    const double position = static_cast<double>(Positions(attrs, length, first_of(at / length))[at % length]);
    for (int64_t j = 0; j < half; ++j) {
      double angle =
          position * std::pow(attrs.real("base"), -2.0 * static_cast<double>(j) / static_cast<double>(width));
      if (attrs.integer("inverse", 0)) angle = -angle;
      const double a = in[0].values[row * width + j], b = in[0].values[row * width + half + j];
      y.values[row * width + j] = a * std::cos(angle) - b * std::sin(angle);
      y.values[row * width + half + j] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  return {y};
}

RefTensors rope(const RefTensors& in, const Attrs& attrs) {
  return rotated(in, attrs, [&](int64_t) { return attrs.integer("offset", 0); });
}
RefTensors rope_at(const RefTensors& in, const Attrs& attrs) {
  return rotated(in, attrs, [&](int64_t b) {
    return attrs.integer("offset", 0) + static_cast<int64_t>(in[1].values[b]);
  });
}

RefTensors cross_entropy(const RefTensors& in, const Attrs& attrs) {
  const size_t width = in[0].shape.back();
  const double smooth = attrs.real("label_smoothing", 0);
  RefTensor loss = RefTensor::zeros({}), count = loss, lse = RefTensor::zeros(in[1].shape);
  for (size_t row = 0; row < lse.values.size(); ++row) {
    const double* x = &in[0].values[row * width];
    const double largest = *std::max_element(x, x + width);
    double total = 0;
    for (size_t i = 0; i < width; ++i) total += std::exp(x[i] - largest);
    lse.values[row] = largest + std::log(total);
    const int64_t target = static_cast<int64_t>(in[1].values[row]);
    if (target == attrs.integer("ignore_index", -1)) continue;
    count.values[0] += 1;
    loss.values[0] += (1 - smooth) * (lse.values[row] - x[target]);
    for (size_t i = 0; i < width; ++i) {
      loss.values[0] += smooth / static_cast<double>(width) * (lse.values[row] - x[i]);
    }
  }
  return {loss, count, lse};
}

// The first class of a part, and how many there are in all.
int64_t first_class(const Attrs& attrs) {
  return attrs.integer("class_offset", 0);
}
double class_count(const Attrs& attrs, size_t width) {
  return static_cast<double>(attrs.integer("classes", static_cast<int64_t>(width)));
}

RefTensors cross_entropy_sums(const RefTensors& in, const Attrs& attrs) {
  const size_t width = in[0].shape.back();
  const double smooth = attrs.real("label_smoothing", 0), classes = class_count(attrs, width);
  RefTensor exponentials = RefTensor::zeros(in[1].shape), expected = exponentials;
  for (size_t row = 0; row < exponentials.values.size(); ++row) {
    for (size_t i = 0; i < width; ++i) {
      const double x = in[0].values[row * width + i];
      const bool hot = static_cast<double>(first_class(attrs)) + static_cast<double>(i) == in[1].values[row];
      exponentials.values[row] += std::exp(x - in[2].values[row]);
      expected.values[row] += (hot ? 1 - smooth : 0) * x + smooth / classes * x;
    }
  }
  return {exponentials, expected};
}

RefTensors cross_entropy_total(const RefTensors& in, const Attrs& attrs) {
  RefTensor loss = RefTensor::zeros({}), count = loss, lse = RefTensor::zeros(in[3].shape);
  for (size_t row = 0; row < lse.values.size(); ++row) {
    lse.values[row] = in[0].values[row] + std::log(in[1].values[row]);
    if (static_cast<int64_t>(in[3].values[row]) == attrs.integer("ignore_index", -1)) continue;
    count.values[0] += 1;
    loss.values[0] += lse.values[row] - in[2].values[row];
  }
  return {loss, count, lse};
}

RefTensors cross_entropy_grad(const RefTensors& in, const Attrs& attrs) {
  const size_t width = in[1].shape.back();
  const double smooth = attrs.real("label_smoothing", 0), classes = class_count(attrs, width);
  RefTensor dlogits = like(in[1]);
  for (size_t row = 0; row < in[2].values.size(); ++row) {
    const double target = in[2].values[row] - static_cast<double>(first_class(attrs));
    if (in[2].values[row] == static_cast<double>(attrs.integer("ignore_index", -1))) continue;
    for (size_t i = 0; i < width; ++i) {
      const double p = std::exp(in[1].values[row * width + i] - in[3].values[row]);
      const double hot = static_cast<double>(i) == target ? 1 - smooth : 0;
      dlogits.values[row * width + i] = in[0].values[0] * (p - hot - smooth / classes);
    }
  }
  return {dlogits};
}

RefTensors cross_entropy_with_grad(const RefTensors& in, const Attrs& attrs) {
  const RefTensors sums = cross_entropy({in[0], in[1]}, attrs);
  return {cross_entropy_grad({in[2], in[0], in[1], sums[2]}, attrs)[0], sums[0], sums[1]};
}

RefTensors dropout(const RefTensors& in, const Attrs& attrs) {
  const RngKey key = rng_key(in[1].values[0], attrs, in[1].values[1]);
  RefTensor y = like(in[0]);
  const Shape whole = attrs.has("whole") ? Shape(attrs.integers("whole")) : y.shape;
  const int along = static_cast<int>(attrs.integer("pieces_dim", 0));
  const Positions pieces(attrs, y.shape.rank() > 0 ? y.shape[along] : 1, 0);
  for (size_t i = 0; i < y.values.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), index = attrs.integer("offset", 0);
    for (int d = y.shape.rank() - 1; d >= 0; --d) {
      const int64_t at = rest % y.shape[d];
      index += (d == along ? pieces[at] : at) * whole.elements(d + 1, whole.rank());
      rest /= y.shape[d];
    }
    const bool kept = uniform(key, static_cast<uint64_t>(index)) >= attrs.real("rate");
    y.values[i] = kept ? in[0].values[i] / (1 - attrs.real("rate")) : 0;
  }
  return {y};
}

// residual + dropout(x + bias); the bias is in[3], if there is one.
RefTensors dropout_add(const RefTensors& in, const Attrs& attrs) {
  RefTensors before = {in[0], in[1]};
  for (size_t i = 0; in.size() == 4 && i < in[0].values.size(); ++i) {
    before[0].values[i] += in[3].values[i % in[3].values.size()];
  }
  RefTensor s = dropout(before, attrs)[0];
  for (size_t i = 0; i < s.values.size(); ++i) s.values[i] += in[2].values[i];
  return {s};
}

constexpr auto kNo = Differentiable::kNo;

void add_embeddings(std::vector<OpCase>& cases) {
  cases.push_back({"embedding", "matrix", {{{11, 7}}, ids({3, 5}, 0, 11)}, {}, embedding, 0});
  cases.push_back({"embedding", "single", {{{11, 7}}, ids({}, 0, 11)}, {}, embedding, 0});
  cases.push_back(
      {"embedding", "part", {{{4, 7}}, ids({40}, 0, 16)}, {{"row_offset", int64_t{8}}}, embedding, 0});
  const auto grad = [&](const char* label, Shape dy, CaseInput tokens, Attrs attrs) {
    cases.push_back({"embedding_grad", label, {{dy}, tokens}, attrs, embedding_grad, 1e-5, kNo});
  };
  grad("matrix", {3, 5, 7}, ids({3, 5}, 0, 11), {{"rows", int64_t{11}}});
  grad("repeated", {200, 37}, ids({200}, 0, 3), {{"rows", int64_t{5}}});
  grad("part", {40, 7}, ids({40}, 0, 16), {{"rows", int64_t{4}}, {"row_offset", int64_t{8}}});
  grad("large", {300, 65}, ids({300}, 0, 900), {{"rows", int64_t{900}}});
}

void add_ropes(std::vector<OpCase>& cases) {
  const auto with = [&](const char* label, Shape x, Attrs attrs) {
    attrs.set("base", 10000.0);
    cases.push_back({"rope", label, {{x}}, attrs, rope});
  };
  with("plain", {2, 5, 6}, {});
  with("heads", {2, 7, 3, 38}, {});
  with("packs", {2, 5, 3, 32}, {});
  with("groups", {1, 5, 2, 3, 4}, {{"offset", int64_t{11}}});
  with("inverse", {2, 5, 3, 8}, {{"inverse", int64_t{1}}, {"offset", int64_t{3}}});
  with("long", {1, 333, 10}, {{"offset", int64_t{100000}}});
  Attrs stripes{{"offset", int64_t{6}}};
  set_pieces(stripes, 1, 5, 9);
  with("stripes", {2, 15, 2, 8}, stripes);
  set_pieces(stripes, 1, 2, 300);
  with("wide_stripes", {1, 200, 10}, stripes);
  const auto at = [&](const char* label, Shape x, double position, Attrs attrs, double more = 0) {
    attrs.set("base", 10000.0);
    cases.push_back({"rope_at", label, {{x}, ids({x[0]}, position, position + more + 1)}, attrs, rope_at});
  };
  at("first", {1, 1, 2, 8}, 0, {});
  at("one", {2, 1, 3, 38}, 63, {});
  at("far", {1, 1, 2, 3, 4}, 1000, {{"offset", int64_t{5}}});
  at("rows", {2, 70, 6}, 61, {});
  at("apart", {5, 3, 2, 8}, 0, {}, 200);
}

void add_losses(std::vector<OpCase>& cases) {
  const auto add = [&](const char* op, const char* label, std::vector<CaseInput> inputs, const Attrs& attrs,
                       auto reference, Differentiable differences = kNo) {
    cases.push_back({op, label, std::move(inputs), attrs, reference, 1e-5, differences});
  };
  const auto with = [&](const char* label, Shape outer, int64_t width, double low, double high, Attrs attrs) {
    Shape shape = outer;
    shape.push_back(width);
    const CaseInput logits{shape, DType::f32, low, high};
    const CaseInput targets = ids(outer, attrs.has("ignore_index") ? -2 : 0, static_cast<double>(width));
    const CaseInput largest{outer, DType::f32, high - 1, high}, lse = kept_f32(outer, 3, 6);
    add("cross_entropy", label, {logits, targets}, attrs, cross_entropy, Differentiable::kYes);
    add("cross_entropy_grad", label, {kept_f32({}), logits, targets, lse}, attrs, cross_entropy_grad);
    add("cross_entropy_with_grad", label, {logits, targets, kept_f32({})}, attrs, cross_entropy_with_grad);
    add("cross_entropy_sums", label, {logits, targets, largest}, attrs, cross_entropy_sums);
    add("cross_entropy_total", label, {{outer}, kept_f32(outer, 1, 9), kept_f32(outer), targets}, attrs,
        cross_entropy_total);
  };
  const Attrs smooth{{"label_smoothing", 0.1}};
  with("odd", {7}, 37, -3, 3, {});
  with("single", {}, 5, -3, 3, {});
  with("matrix", {2, 3}, 50, -3, 3, {});
  with("long_rows", {3}, 2500, -3, 3, smooth);
  with("smoothed", {7}, 37, -3, 3, smooth);
  with("far_out", {7}, 37, -90, 8, {});
  const Attrs ignored{{"ignore_index", int64_t{1}}};
  const CaseInput three{{60, 3}}, of_three = ids({60}, -1, 3), lse = kept_f32({60}, 0, 1),
                                  dloss = kept_f32({});
  add("cross_entropy", "ignores", {three, ids({60}, 0, 3)}, ignored, cross_entropy, Differentiable::kYes);
  add("cross_entropy_grad", "ignores", {dloss, three, of_three, lse}, {}, cross_entropy_grad);
  add("cross_entropy_with_grad", "ignores", {three, of_three, dloss}, {}, cross_entropy_with_grad);
  // Longer than a GPU holds in f32, and held in 16 bits.
  add("cross_entropy_with_grad", "very_long_rows",
      {{{2, 60000}, DType::f32, -3, 3}, ids({2}, 0, 60000), dloss}, {}, cross_entropy_with_grad);
  const Attrs part{{"label_smoothing", 0.1}, {"class_offset", int64_t{5}}, {"classes", int64_t{20}}};
  const CaseInput eight{{60, 8}}, of_twenty = ids({60}, -1, 20), largest{{60}, DType::f32, 1, 2};
  add("cross_entropy_grad", "part", {dloss, eight, of_twenty, lse}, part, cross_entropy_grad);
  add("cross_entropy_sums", "part", {eight, of_twenty, largest}, part, cross_entropy_sums);
}

void add_dropouts(std::vector<OpCase>& cases) {
  const CaseInput rng{{2}, DType::i64, 0, 1e6};
  const auto with = [&](const std::string& label, Shape x, double rate, int64_t offset,
                        const std::vector<int64_t>& whole = {}, int64_t pieces = 1, int64_t stride = 0) {
    Attrs attrs{{"rate", rate}, {"stream", int64_t{42}}, {"offset", offset}};
    if (!whole.empty()) attrs.set("whole", whole);
    if (pieces > 1) set_pieces(attrs, 1, pieces, stride);
    const Differentiable differences = x.elements() < 1000 ? Differentiable::kYes : kNo;
    const CaseInput bias{{x.back()}};
    cases.push_back({"dropout", label, {{x}, rng}, attrs, dropout, 1e-5, differences});
    cases.push_back({"dropout_add", label, {{x}, rng, {x}}, attrs, dropout_add, 1e-5, kNo});
    cases.push_back({"dropout_add", label + "_bias", {{x}, rng, {x}, bias}, attrs, dropout_add, 1e-5, kNo});
  };
  with("odd", {3, 37}, 0.1, 0);
  with("offset", {3, 37}, 0.5, 10);
  with("offset_past_32_bits", {300}, 0.5, (int64_t{1} << 34) - 150);
  with("none", {37}, 0, 0);
  with("large", {7, 5003}, 0.25, 3);
  with("part", {2, 3, 5}, 0.5, 4 * 13 + 1, {4, 6, 13});
  with("part_of_rows", {3, 4, 1500}, 0.5, 1500, {3, 9, 1500});
  with("stripes", {2, 6, 5}, 0.5, 4 * 24 * 13 + 4 * 13 + 3, {7, 24, 13}, 3, 8);
  with("stripes_of_rows", {3, 4, 1500}, 0.5, 1500, {3, 16, 1500}, 2, 8);
}

}  // namespace
}  // namespace language_reference

std::vector<OpCase> language_cases() {
  using namespace language_reference;
  std::vector<OpCase> cases;
  add_embeddings(cases);
  add_ropes(cases);
  add_losses(cases);
  add_dropouts(cases);
  return cases;
}

}  // namespace trireme::bench

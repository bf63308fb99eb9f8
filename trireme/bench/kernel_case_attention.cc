// Causal attention and its gradient, with heads of 64 features on 256 and on 1024 tokens. The checks write
// out single rows of the matrix of scores.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/bench/kernel_case.h"

namespace trireme::bench {
namespace {

// Indices into [b t g d] tensors (one query head per group).
struct Layout {
  int64_t tokens, heads, width;
  double scale;
  explicit Layout(const KernelRun& run, int query_input)
      : tokens(run.shape(query_input)[1]),
        heads(run.shape(query_input)[2]),
        width(run.shape(query_input)[4]),
        scale(run.attrs().real("scale")) {}
  int64_t row(int64_t b, int64_t t, int64_t head) const { return ((b * tokens + t) * heads + head) * width; }
};

double dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double magnitude(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::abs(static_cast<double>(a[i]) * b[i]);
  return sum;
}

std::vector<ExpectedElement> expected_attention(const KernelRun& run) {
  const Layout l(run, 0);
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(40, run.outputs()[0].elements())) {
    const int64_t d = index % l.width, head = index / l.width % l.heads,
                  t = index / l.width / l.heads % l.tokens, b = index / l.width / l.heads / l.tokens;
    const float* q = run.in(0) + l.row(b, t, head);
    double total = 0;
    ExpectedElement element{0, index, 0, 0};
    for (int64_t s = 0; s <= t; ++s) {
      const double p = std::exp(l.scale * dot(q, run.in(1) + l.row(b, s, head), l.width));
      const double v = run.in(2)[l.row(b, s, head) + d];
      total += p;
      element.value += p * v;
      element.magnitude += p * std::abs(v);
    }
    element.value /= total;
    element.magnitude /= total;
    expected.push_back(element);
  }
  return expected;
}

// Inputs: do q k v o lse.
std::vector<ExpectedElement> expected_attention_grad(const KernelRun& run) {
  const Layout l(run, 1);
  const float *dout = run.in(0), *q = run.in(1), *k = run.in(2), *v = run.in(3), *o = run.in(4),
              *lse = run.in(5);
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(20, run.outputs()[0].elements())) {
    const int64_t d = index % l.width, head = index / l.width % l.heads,
                  row = index / l.width / l.heads % l.tokens, b = index / l.width / l.heads / l.tokens;
    ExpectedElement dq{0, index, 0, 0}, dk{1, index, 0, 0}, dv{2, index, 0, 0};
    // The probability and the gradient of the score of query t and key s.
    const auto visit = [&](int64_t t, int64_t s, const auto& use) {
      const int64_t at = l.row(b, t, head), from = l.row(b, s, head);
      const double p =
          std::exp(l.scale * dot(q + at, k + from, l.width) - lse[(b * l.heads + head) * l.tokens + t]);
      const double ds = p * (dot(dout + at, v + from, l.width) - dot(dout + at, o + at, l.width));
      use(p, ds, p * (magnitude(dout + at, v + from, l.width) + magnitude(dout + at, o + at, l.width)));
    };
    for (int64_t s = 0; s <= row; ++s) {
      const double key = l.scale * k[l.row(b, s, head) + d];
      visit(row, s, [&](double, double ds, double size) {
        dq.value += ds * key;
        dq.magnitude += size * std::abs(key);
      });
    }
    for (int64_t t = row; t < l.tokens; ++t) {
      const double query = l.scale * q[l.row(b, t, head) + d], back = dout[l.row(b, t, head) + d];
      visit(t, row, [&](double p, double ds, double size) {
        dk.value += ds * query;
        dk.magnitude += size * std::abs(query);
        dv.value += p * back;
        dv.magnitude += p * std::abs(back);
      });
    }
    for (const ExpectedElement& element : {dq, dk, dv}) expected.push_back(element);
  }
  return expected;
}

// The output and the log-sum-exp come from the forward kernel, which has its own check.
void prepare_attention_grad(KernelRun& run, ThreadPool& pool) {
  std::vector<TensorType> types;
  for (int i : {1, 2, 3}) types.push_back({DType::f32, run.shape(i)});
  KernelRun forward("attention", types, run.attrs(), Results::kOwnMemory);
  for (int i : {0, 1, 2}) std::memcpy(forward.in(i), run.in(i + 1), forward.inputs()[i].bytes());
  forward.run(pool);
  for (int i : {0, 1}) std::memcpy(run.in(4 + i), forward.out(i), forward.outputs()[i].bytes());
}

}  // namespace

std::vector<KernelCase> attention_kernel_cases(const ModelSizes& sizes) {
  std::vector<KernelCase> cases;
  for (const int64_t tokens : {256, 1024}) {
    const int64_t batch = sizes.tokens / tokens, width = 64, heads = sizes.hidden / width;
    const TensorType q{DType::f32, {batch, tokens, heads, 1, width}},
        k{DType::f32, {batch, tokens, heads, width}}, lse{DType::f32, {batch, heads, 1, tokens}};
    const Attrs attrs{{"causal", int64_t{1}}, {"scale", 1 / std::sqrt(static_cast<double>(width))}};
    const std::string shape = fmt::format("B{} T{} H{} d{}", batch, tokens, heads, width);
    cases.push_back({"attention", shape, {q, k, k}, attrs, expected_attention});
    cases.push_back({"attention_grad",
                     shape,
                     {q, q, k, k, q, lse},
                     attrs,
                     expected_attention_grad,
                     prepare_attention_grad});
  }
  return cases;
}

}  // namespace trireme::bench

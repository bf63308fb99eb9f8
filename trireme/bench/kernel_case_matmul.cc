// matmul at the shapes of a GPT: forward, gradient of the input (second operand transposed), gradient of the
// weight (first operand transposed).
#include <fmt/format.h>

#include <cmath>

#include "trireme/bench/kernel_case.h"

namespace trireme::bench {
namespace {

std::vector<ExpectedElement> expected_matmul(const KernelRun& run) {
  const bool ta = run.attrs().integer("transpose_a", 0), tb = run.attrs().integer("transpose_b", 0);
  const int64_t m = run.shape(0)[ta ? 1 : 0], k = run.shape(0)[ta ? 0 : 1], n = run.shape(1)[tb ? 0 : 1];
  const float *a = run.in(0), *b = run.in(1);
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(200, m * n)) {
    const int64_t row = index / n, column = index % n;
    ExpectedElement element{0, index, 0, 0};
    for (int64_t i = 0; i < k; ++i) {
      const double term = static_cast<double>(ta ? a[i * m + row] : a[row * k + i]) *
                          static_cast<double>(tb ? b[column * k + i] : b[i * n + column]);
      element.value += term;
      element.magnitude += std::abs(term);
    }
    expected.push_back(element);
  }
  return expected;
}

KernelCase matmul(Shape a, Shape b, int64_t transpose_a, int64_t transpose_b) {
  const auto text = [](const Shape& s, bool transposed) {
    return fmt::format("{}x{}{}", s[0], s[1], transposed ? "ᵀ" : "");
  };
  return {.op = "matmul",
          .shape = text(a, transpose_a) + " · " + text(b, transpose_b),
          .inputs = {{DType::f32, a}, {DType::f32, b}},
          .attrs = {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
          .expected = expected_matmul};
}

}  // namespace

std::vector<KernelCase> matmul_kernel_cases(const ModelSizes& sizes) {
  const int64_t hidden = sizes.hidden, inner = sizes.inner();
  struct Layer {
    int64_t in, out;
  };
  std::vector<KernelCase> cases;
  for (const Layer& layer :
       {Layer{hidden, 3 * hidden}, Layer{hidden, hidden}, Layer{hidden, inner}, Layer{inner, hidden}}) {
    cases.push_back(matmul({sizes.tokens, layer.in}, {layer.in, layer.out}, 0, 0));
    cases.push_back(matmul({sizes.tokens, layer.out}, {layer.in, layer.out}, 0, 1));
    cases.push_back(matmul({sizes.tokens, layer.in}, {sizes.tokens, layer.out}, 1, 0));
  }
  // The head shares its weight with the embedding, which is stored [vocab, hidden].
  const int64_t rows = sizes.predicted, vocab = sizes.vocab;
  cases.push_back(matmul({rows, hidden}, {vocab, hidden}, 0, 1));
  cases.push_back(matmul({rows, vocab}, {vocab, hidden}, 0, 0));
  cases.push_back(matmul({rows, vocab}, {rows, hidden}, 1, 0));
  return cases;
}

}  // namespace trireme::bench

// What compressors of gradients do before they send: the selection of the largest elements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "trireme/bench/kernel_case.h"

namespace trireme::bench {
namespace {

constexpr int64_t kOneOf = 1000;

// Results: values indices rest. The k-th largest magnitude, found by sorting, is the least that was selected;
// what is smaller stays in the rest, and what is larger is 0 there.
std::vector<ExpectedElement> expected_top_k(const KernelRun& run) {
  const int64_t elements = run.shape(0)[0], k = run.outputs()[0].elements();
  std::vector<float> magnitudes(run.in(0), run.in(0) + elements);
  for (float& x : magnitudes) x = std::abs(x);
  std::ranges::nth_element(magnitudes, magnitudes.begin() + k - 1, std::greater<>());
  const double least = magnitudes[static_cast<size_t>(k - 1)];

  const float* const values = run.out(0);
  const auto* const indices = run.outputs()[1].as<int32_t>();
  const int64_t smallest =
      std::min_element(values, values + k, [](float a, float b) { return std::abs(a) < std::abs(b); }) -
      values;
  std::vector<ExpectedElement> expected = {{0, smallest, std::copysign(least, values[smallest]), least}};
  for (int64_t i : sample_indices(50, k)) expected.push_back({0, i, run.in(0)[indices[i]], least});
  for (int64_t i : sample_indices(50, elements)) {
    const double x = run.in(0)[i];
    if (std::abs(x) != least) expected.push_back({2, i, std::abs(x) > least ? 0 : x, least});
  }
  return expected;
}

}  // namespace

std::vector<KernelCase> exchange_kernel_cases(const ModelSizes& sizes) {
  if (sizes.gradient == 0) return {};
  return {{"top_k",
           fmt::format("1/{} of {}", kOneOf, sizes.gradient),
           {{DType::f32, {sizes.gradient}}},
           {{"k", sizes.gradient / kOneOf}},
           expected_top_k,
           nullptr,
           Results::kOverInputs}};
}

}  // namespace trireme::bench

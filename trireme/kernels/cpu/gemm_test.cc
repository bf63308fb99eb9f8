// What the cases of matmul cannot reach: strides, accumulation, operands that are computed, calls without a
// pool, and the promise about bits.
#include "trireme/kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "trireme/base/rng.h"

namespace trireme::cpu {
namespace {

std::vector<float> random_floats(int64_t count, uint64_t stream) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(random_words({1, stream}, i)[0] * 0x1p-31 - 1);
  }
  return values;
}

enum class Caller { kPool, kAlone };

void run(const Gemm& g, int threads, Caller caller = Caller::kPool) {
  const size_t bytes = (gemm_workspace_bytes(g, threads) + 64) / 64 * 64;
  const std::unique_ptr<std::byte, void (*)(void*)> workspace(
      static_cast<std::byte*>(std::aligned_alloc(64, bytes)), std::free);
  if (caller == Caller::kAlone) {
    gemm(g, workspace.get());
  } else {
    ThreadPool pool(threads);
    gemm(g, pool, workspace.get());
  }
}

// A product of row-major operands whose rows lie a little apart.
struct Product {
  Product(int64_t m, int64_t n, int64_t k)
      : a(random_floats(m * (k + 3), 1)), b(random_floats(k * (n + 5), 2)), c(random_floats(m * (n + 2), 3)) {
    g.m = m;
    g.n = n;
    g.k = k;
    g.a = {a.data(), k + 3};
    g.b = {b.data(), n + 5};
    g.c = c.data();
    g.c_stride = n + 2;
  }
  double exact(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t l = 0; l < g.k; ++l) sum += double{a[i * g.a.stride + l]} * b[l * g.b.stride + j];
    return sum;
  }
  std::vector<float> a, b, c;
  Gemm g;
};

TEST(Gemm, AccumulatesAndLeavesGapsBetweenRowsAlone) {
  Product p(33, 70, 500);
  const std::vector<float> before = p.c;
  p.g.accumulate = Accumulate::kYes;
  run(p.g, 2);
  for (int64_t i = 0; i < p.g.m; ++i) {
    for (int64_t j = 0; j < p.g.c_stride; ++j) {
      const int64_t at = i * p.g.c_stride + j;
      if (j < p.g.n) {
        EXPECT_NEAR(p.c[at], before[at] + p.exact(i, j), 1e-4);
      } else {
        EXPECT_EQ(p.c[at], before[at]);
      }
    }
  }
}

TEST(Gemm, BitsDoNotDependOnThreadsTransposesOrTheCaller) {
  for (const auto& [m, n, k] : {std::tuple{100, 90, 800}, {7, 300, 1000}, {16, 10, 20000}, {1, 50, 50}}) {
    Product p(m, n, k);
    run(p.g, 1, Caller::kAlone);
    const std::vector<float> expected = p.c;
    for (int threads : {1, 2, 3, 5}) {
      std::fill(p.c.begin(), p.c.end(), 7.0f);
      run(p.g, threads);
      for (int64_t i = 0; i < m * n; ++i) {
        const int64_t at = i / n * p.g.c_stride + i % n;
        ASSERT_EQ(p.c[at], expected[at]) << threads << " threads";
      }
    }
    std::vector<float> a(m * k), b(k * n);
    for (int64_t i = 0; i < m * k; ++i) a[i % k * m + i / k] = p.a[i / k * p.g.a.stride + i % k];
    for (int64_t i = 0; i < k * n; ++i) b[i % n * k + i / n] = p.b[i / n * p.g.b.stride + i % n];
    p.g.a = {a.data(), m, Transpose::kYes};
    p.g.b = {b.data(), k, Transpose::kYes};
    run(p.g, 2);
    for (int64_t i = 0; i < m * n; ++i) {
      const int64_t at = i / n * p.g.c_stride + i % n;
      ASSERT_EQ(p.c[at], expected[at]) << "transposed";
    }
  }
}

// Reads a plain matrix through the interface of computed operands.
struct Source {
  const float* data;
  int64_t k_step;
  int64_t step;
};
void fill_from(const void* context, const GemmBlock& block, float* out, int64_t out_stride) {
  const auto& source = *static_cast<const Source*>(context);
  for (int64_t i = 0; i < block.k_count; ++i) {
    for (int64_t j = 0; j < block.count; ++j) {
      out[i * out_stride + j] = source.data[(block.k + i) * source.k_step + (block.first + j) * source.step];
    }
  }
}

TEST(Gemm, TakesComputedOperands) {
  for (const auto& [m, n, k] : {std::tuple{50, 75, 410}, {3, 40, 30}, {9, 9, 9000}}) {
    Product p(m, n, k);
    run(p.g, 2);
    const std::vector<float> expected = p.c;
    const Source a{p.a.data(), 1, p.g.a.stride}, b{p.b.data(), p.g.b.stride, 1};
    p.g.a = {.fill = fill_from, .context = &a};
    p.g.b = {.fill = fill_from, .context = &b};
    std::fill_n(p.c.begin(), n, 0.0f);
    run(p.g, 2);
    EXPECT_EQ(p.c, expected);
  }
}

// Rows, or values of k, that are not used: the bits that zeros in their place give, and the others are not
// read. In batches, so that each matrix has its own.
struct Used {
  int64_t groups, slots;
  std::vector<int32_t> used;  // [2 groups]

  bool has(int64_t batch, int64_t at) const { return at % slots < used[batch * groups + at / slots]; }
  GemmUse use(GemmUse::Along along) const { return {along, used.data(), groups, slots}; }
};

const Used kUsed[] = {
    {2, 40, {3, 17, 40, 0}},
    {5, 7, {7, 7, 2, 0, 1, 0, 0, 0, 0, 0}},
    {30, 1, {1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 0, 1, 1, 1,
             0, 1, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}},
    {3, 300, {300, 11, 150, 0, 299, 1}},
    {41, 210, std::vector<int32_t>(82, 5)}};  // a sum that is cut into chunks

TEST(Gemm, OfRowsThatAreNotUsedNothingIsReadOrWritten) {
  const int64_t n = 50, k = 410;
  for (const Used& one : kUsed) {
    const int64_t m = one.groups * one.slots;
    std::vector<float> a = random_floats(2 * m * k, 1), b = random_floats(2 * k * n, 2), c(2 * m * n, 7.0f);
    Gemm g{.m = m,
           .n = n,
           .k = k,
           .a = {a.data(), k},
           .b = {b.data(), n},
           .c = c.data(),
           .c_stride = n,
           .batch = 2,
           .c_batch_stride = m * n};
    g.a.batch_stride = m * k;
    g.b.batch_stride = k * n;
    run(g, 2);
    std::vector<float> expected = c;
    for (int64_t row = 0; row < 2 * m; ++row) {
      if (one.has(row / m, row % m)) continue;
      std::fill_n(a.begin() + row * k, k, NAN);
      std::fill_n(expected.begin() + row * n, n, 7.0f);
    }
    g.use = one.use(GemmUse::Along::kRows);
    for (const int threads : {1, 3}) {
      std::fill(c.begin(), c.end(), 7.0f);
      run(g, threads);
      EXPECT_EQ(c, expected) << one.groups << " groups, " << threads << " threads";
    }
  }
}

TEST(Gemm, ValuesOfKThatAreNotUsedCountAsZeros) {
  const int64_t m = 33, n = 50;
  for (const Used& one : kUsed) {
    const int64_t k = one.groups * one.slots;
    std::vector<float> a = random_floats(2 * k * m, 1), b = random_floats(2 * k * n, 2), c(2 * m * n, 7.0f);
    Gemm g{.m = m,
           .n = n,
           .k = k,
           .a = {a.data(), m, Transpose::kYes},
           .b = {b.data(), n},
           .c = c.data(),
           .c_stride = n,
           .batch = 2,
           .c_batch_stride = m * n};
    g.a.batch_stride = k * m;
    g.b.batch_stride = k * n;
    const auto fill_unused = [&](float value) {
      for (int64_t row = 0; row < 2 * k; ++row) {
        if (one.has(row / k, row % k)) continue;
        std::fill_n(a.begin() + row * m, m, value);
        std::fill_n(b.begin() + row * n, n, value);
      }
    };
    fill_unused(0);
    run(g, 2);
    const std::vector<float> expected = c;
    fill_unused(NAN);
    g.use = one.use(GemmUse::Along::kSum);
    for (const int threads : {1, 3}) {
      std::fill(c.begin(), c.end(), 7.0f);
      run(g, threads);
      EXPECT_EQ(c, expected) << one.groups << " groups, " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace trireme::cpu

// Packing, edges and epilogues of bf16 products, by loops that any CPU can run and by the instructions of
// this one.
#include "trireme/kernels/cpu/bf16_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "trireme/base/rng.h"

namespace trireme::cpu {
namespace {

std::vector<Bf16> random_bf16(int64_t count, uint64_t stream) {
  std::vector<Bf16> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = Bf16(static_cast<float>(random_words({1, stream}, i)[0] * 0x1p-31 - 1));
  return values;
}

std::vector<Bf16> product_of(Bf16Product p, const Bf16Instructions& instructions, int threads) {
  std::vector<Bf16> c(static_cast<size_t>(p.batch * p.m * p.n), Bf16(7.0f));
  p.c = c.data();
  const std::unique_ptr<std::byte, void (*)(void*)> workspace(
      static_cast<std::byte*>(std::aligned_alloc(64, (bf16_product_workspace(p) + 64) / 64 * 64)), std::free);
  ThreadPool pool(threads);
  multiply_bf16(p, instructions, pool, workspace.get());
  return c;
}

std::vector<const Bf16Instructions*> all_instructions() {
  std::vector<const Bf16Instructions*> all{&plain_bf16_instructions()};
  if (bf16_instructions()) all.push_back(bf16_instructions());
  return all;
}

struct Bf16Case {
  int64_t m, n, k, batch;
};
const Bf16Case kCases[] = {{1, 1, 1, 1},    {32, 32, 32, 1}, {33, 31, 65, 1},  {100, 70, 90, 1},
                           {5, 200, 34, 1}, {40, 17, 33, 3}, {64, 96, 500, 2}, {3, 4, 0, 1}};

TEST(Bf16Product, EqualsExactSums) {
  for (const Bf16Case& one : kCases) {
    const auto& [m, n, k, batch] = one;
    for (int transposed = 0; transposed < 4; ++transposed) {
      const bool ta = transposed & 1, tb = transposed & 2;
      const int64_t a_stride = (ta ? m : k) + 3, b_stride = (tb ? k : n) + 5;
      const int64_t a_size = (ta ? k : m) * a_stride, b_size = (tb ? n : k) * b_stride;
      const std::vector<Bf16> a = random_bf16(batch * a_size + 1, 1), b = random_bf16(b_size + 1, 2);
      Bf16Product p{.m = m, .n = n, .k = k, .batch = batch};
      p.a = {a.data(), a_stride, ta ? Transpose::kYes : Transpose::kNo, a_size};
      p.b = {b.data(), b_stride, tb ? Transpose::kYes : Transpose::kNo, 0};
      for (const Bf16Instructions* instructions : all_instructions()) {
        const std::vector<Bf16> c = product_of(p, *instructions, 2);
        for (int64_t at = 0; at < batch * m * n; ++at) {
          const int64_t which = at / (m * n), i = at / n % m, j = at % n;
          double sum = 0, size = 0;
          for (int64_t l = 0; l < k; ++l) {
            const auto x = static_cast<float>(a[which * a_size + (ta ? l * a_stride + i : i * a_stride + l)]);
            const auto y = static_cast<float>(b[tb ? j * b_stride + l : l * b_stride + j]);
            sum += double{x} * y;
            size += std::abs(double{x} * y);
          }
          ASSERT_NEAR(static_cast<float>(c[at]), sum, std::abs(sum) / 256 + size * 1e-6)
              << m << 'x' << n << 'x' << k << " transposed " << transposed << " at " << at;
        }
      }
    }
  }
}

TEST(Bf16Product, BitsDoNotDependOnThreads) {
  const int64_t m = 200, n = 150, k = 333;
  const std::vector<Bf16> a = random_bf16(m * k, 1), b = random_bf16(k * n, 2);
  Bf16Product p{.m = m, .n = n, .k = k, .a = {a.data(), k}, .b = {b.data(), n}};
  for (const Bf16Instructions* instructions : all_instructions()) {
    const std::vector<Bf16> expected = product_of(p, *instructions, 1);
    for (int threads : {2, 5}) {
      const std::vector<Bf16> found = product_of(p, *instructions, threads);
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(found[i].bits, expected[i].bits) << threads;
    }
  }
}

// Rounded to bf16 after each, as ops of their own would be.
TEST(Bf16Product, BiasResidualAndGeluFollow) {
  const int64_t m = 37, n = 45, k = 64;
  const std::vector<Bf16> a = random_bf16(m * k, 1), b = random_bf16(k * n, 2), bias = random_bf16(n, 3),
                          residual = random_bf16(m * n, 4);
  const auto rounded = [](float value) { return static_cast<float>(Bf16(value)); };
  for (const Bf16Instructions* instructions : all_instructions()) {
    Bf16Product p{.m = m, .n = n, .k = k, .a = {a.data(), k}, .b = {b.data(), n}};
    const std::vector<Bf16> sums = product_of(p, *instructions, 2);
    std::vector<Bf16> pre(static_cast<size_t>(m * n));
    p.bias = bias.data();
    p.residual = residual.data();
    p.pre = pre.data();
    const std::vector<Bf16> found = product_of(p, *instructions, 2);
    for (int64_t i = 0; i < m * n; ++i) {
      const float biased = rounded(static_cast<float>(sums[i]) + static_cast<float>(bias[i % n]));
      const float x = rounded(biased + static_cast<float>(residual[i]));
      ASSERT_EQ(static_cast<float>(pre[i]), x) << i;
      const double gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      ASSERT_NEAR(static_cast<float>(found[i]), gelu, std::abs(gelu) / 200 + 1e-6) << i;
    }
  }
}

// What is not used is not read, and counts as zeros.
TEST(Bf16Product, LeavesOutWhatIsNotUsed) {
  const int64_t groups = 3, slots = 45, rows = groups * slots, m = 37, n = 70;
  const std::vector<int32_t> used = {45, 3, 0, 0, 31, 33};
  std::vector<Bf16> x = random_bf16(2 * rows * m, 1), dy = random_bf16(2 * rows * n, 2),
                    w = random_bf16(2 * m * n, 3);
  const auto fill_unused = [&](float value) {
    for (int64_t row = 0; row < 2 * rows; ++row) {
      if (row % slots < used[static_cast<size_t>(row / slots)]) continue;
      std::fill_n(x.begin() + row * m, m, Bf16(value));
      std::fill_n(dy.begin() + row * n, n, Bf16(value));
    }
  };
  Bf16Product product{.m = rows, .n = n, .k = m, .batch = 2, .a = {x.data(), m}, .b = {w.data(), n}};
  product.a.batch_stride = rows * m;
  product.b.batch_stride = m * n;
  Bf16Product weight{
      .m = m, .n = n, .k = rows, .batch = 2, .a = {x.data(), m, Transpose::kYes}, .b = {dy.data(), n}};
  weight.a.batch_stride = rows * m;
  weight.b.batch_stride = rows * n;
  for (const Bf16Instructions* instructions : all_instructions()) {
    for (Bf16Product p : {product, weight}) {
      fill_unused(0);
      const std::vector<Bf16> expected = product_of(p, *instructions, 2);
      fill_unused(NAN);
      p.use = {p.k == rows ? GemmUse::Along::kSum : GemmUse::Along::kRows, used.data(), groups, slots};
      for (const int threads : {1, 3}) {
        const std::vector<Bf16> found = product_of(p, *instructions, threads);
        for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(found[i].bits, expected[i].bits) << i;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cpu

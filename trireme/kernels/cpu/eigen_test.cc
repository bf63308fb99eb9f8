// Eigenvectors are held to their definition and to each other, of matrices that are easy and that are not.
#include "trireme/kernels/cpu/eigen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "trireme/base/rng.h"
#include "trireme/kernels/cpu/gram.h"

namespace trireme::cpu {
namespace {

using Matrix = std::vector<double>;

// A solver of n × n matrices in memory of its own.
class Solver {
 public:
  explicit Solver(int64_t n) : memory_(bytes_of(n) / sizeof(std::max_align_t) + 1), eigen_(in_memory(n)) {}
  Eigen* operator->() { return &eigen_; }

 private:
  static size_t bytes_of(int64_t n) {
    Workspace counted(nullptr);
    const Eigen none(counted, n, n);
    return counted.bytes();
  }
  Eigen in_memory(int64_t n) {
    Workspace space(reinterpret_cast<std::byte*>(memory_.data()));
    return {space, n, n};
  }

  std::vector<std::max_align_t> memory_;
  Eigen eigen_;
};

// Solves `matrix` (n × n) and compares everything that is asked for with what it has to be.
void expect_solved(const Matrix& matrix, int64_t n) {
  Solver eigen(n);
  double size = 0;
  for (int64_t i = 0; i < n * n; ++i) {
    eigen->matrix()[i] = i % n <= i / n ? matrix[i] : std::nan("");  // above the diagonal nothing is read
    size = std::max(size, std::abs(matrix[i]));
  }
  eigen->solve();
  EXPECT_LE(3 * eigen->rotations(), 2 * eigen->room());
  std::vector<Matrix> vectors(n, Matrix(n));
  for (int64_t i = 0; i < n; ++i) eigen->vector(i, vectors[i].data());
  const double close = 1e-13 * static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t row = 0; row < n; ++row) {
      double sum = 0;
      for (int64_t c = 0; c < n; ++c) sum += matrix[row * n + c] * vectors[i][c];
      ASSERT_NEAR(sum, eigen->values()[i] * vectors[i][row], close * size) << "vector " << i << " of " << n;
    }
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < n; ++c) sum += vectors[i][c] * vectors[j][c];
      ASSERT_NEAR(sum, i == j ? 1 : 0, close) << "vectors " << i << " and " << j << " of " << n;
    }
  }
}

Matrix filled(int64_t n, const std::function<double(int64_t row, int64_t column)>& at) {
  Matrix matrix(n * n);
  for (int64_t i = 0; i < n * n; ++i) matrix[i] = at(std::max(i / n, i % n), std::min(i / n, i % n));
  return matrix;
}

double drawn(int64_t i) {
  return static_cast<double>(uniform({5, 6}, static_cast<uint64_t>(i))) - 0.5;
}

TEST(Eigen, SolvesMatricesOfAnySize) {
  for (const int64_t n : {1, 2, 3, 4, 5, 8, 17, 60, 131})
    expect_solved(filled(n, [n](int64_t row, int64_t column) { return drawn(row * n + column); }), n);
}

TEST(Eigen, SolvesMatricesWithEqualValuesAndNone) {
  constexpr int64_t n = 33;
  const auto at = [](const std::function<double(int64_t, int64_t)>& value) {
    expect_solved(filled(n, value), n);
  };
  at([](int64_t, int64_t) { return 0; });
  at([](int64_t, int64_t) { return 3; });                                            // of rank 1
  at([](int64_t row, int64_t column) { return row == column ? 2 : 0; });             // all equal
  at([](int64_t row, int64_t column) { return row == column ? row : 0; });           // as it is
  at([](int64_t row, int64_t column) { return row - column <= 1 ? 1e-3 : 0; });      // tridiagonal
  at([](int64_t row, int64_t column) { return row == n - 1 && column == 0; });       // two values, and none
  at([](int64_t row, int64_t column) { return row / 7 == column / 7 ? 1e20 : 0; });  // blocks
}

TEST(Eigen, SolvesWhatIsOfVeryDifferentSizes) {
  constexpr int64_t n = 40;
  expect_solved(filled(n,
                       [](int64_t row, int64_t column) {
                         return drawn(row * n + column) * std::exp2(-static_cast<double>(row + column));
                       }),
                n);
}

TEST(Eigen, EndsWhereNotANumberIs) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    constexpr int64_t n = 9;
    Solver eigen(n);
    std::fill_n(eigen->matrix(), n * n, 1.0);
    eigen->matrix()[5 * n + 3] = value;
    eigen->solve();
    EXPECT_LE(eigen->rotations(), eigen->room());
  }
}

TEST(Gram, HasAllInnerProductsForAnyNumberOfThreads) {
  for (const auto lie : {FloatVectors::Lie::kRows, FloatVectors::Lie::kColumns}) {
    for (const int64_t count : {1, 5, 24, 50}) {
      constexpr int64_t kLength = 77;
      std::vector<float> x(count * kLength);
      for (int64_t i = 0; i < std::ssize(x); ++i) x[i] = static_cast<float>(drawn(i));
      const FloatVectors vectors{x.data(), count, kLength, lie};
      const auto at = [&](int64_t vector, int64_t t) {
        return static_cast<double>(
            x[lie == FloatVectors::Lie::kRows ? vector * kLength + t : t * count + vector]);
      };
      const int64_t stride = gram_stride(count);
      std::vector<double> panel(gram_panel_elements(count)), one(stride * stride), three(stride * stride);
      ThreadPool single(1), several(3);
      gram(vectors, panel.data(), one.data(), single);
      gram(vectors, panel.data(), three.data(), several);
      std::vector<double> times(count), sum(kLength);
      for (int64_t i = 0; i < count; ++i) {
        times[i] = drawn(1000 + i);
        for (int64_t j = 0; j <= i; ++j) {
          double expected = 0;
          for (int64_t t = 0; t < kLength; ++t) expected += at(i, t) * at(j, t);
          ASSERT_NEAR(one[i * stride + j], expected, 1e-13);
          ASSERT_EQ(one[i * stride + j], three[i * stride + j]);
        }
      }
      add_up(vectors, times.data(), sum.data());
      for (int64_t t = 0; t < kLength; ++t) {
        double expected = 0;
        for (int64_t i = 0; i < count; ++i) expected += times[i] * at(i, t);
        ASSERT_NEAR(sum[t], expected, 1e-13);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cpu

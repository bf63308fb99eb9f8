// Reflectors are made from the last row up. What a reflection changes in the rows above it is written when
// the next one's products with these rows are made: memory is gone through once for each.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/eigen.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/eigen.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// products = A·u over the first `rows` rows of a symmetric matrix that has its lower triangle alone. Before
// that the matrix becomes A - old_u·old_wᵀ - old_w·old_uᵀ, unless these are null.
void multiply(double* HWY_RESTRICT matrix, int64_t stride, int64_t rows, const double* HWY_RESTRICT old_u,
              const double* HWY_RESTRICT old_w, const double* HWY_RESTRICT u, double* HWY_RESTRICT products) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < rows; ++j) {
    double* HWY_RESTRICT row = matrix + j * stride;
    const V own = hn::Set(d, u[j]);
    V sums = hn::Zero(d);
    double sum = 0;
    int64_t c = 0;
    if (old_u) {
      const V u_here = hn::Set(d, old_u[j]), w_here = hn::Set(d, old_w[j]);
      for (; c + lanes <= j; c += lanes) {
        V value = hn::LoadU(d, row + c);
        value = hn::NegMulAdd(u_here, hn::LoadU(d, old_w + c), value);
        value = hn::NegMulAdd(w_here, hn::LoadU(d, old_u + c), value);
        hn::StoreU(value, d, row + c);
        sums = hn::MulAdd(value, hn::LoadU(d, u + c), sums);
        hn::StoreU(hn::MulAdd(value, own, hn::LoadU(d, products + c)), d, products + c);
      }
      for (int64_t rest = c; rest <= j; ++rest) row[rest] -= old_u[j] * old_w[rest] + old_w[j] * old_u[rest];
    } else {
      for (; c + lanes <= j; c += lanes) {
        const V value = hn::LoadU(d, row + c);
        sums = hn::MulAdd(value, hn::LoadU(d, u + c), sums);
        hn::StoreU(hn::MulAdd(value, own, hn::LoadU(d, products + c)), d, products + c);
      }
    }
    for (; c < j; ++c) {
      sum += row[c] * u[c];
      products[c] += row[c] * u[j];
    }
    products[j] = hn::GetLane(hn::SumOfLanes(d, sums)) + sum + row[j] * u[j];
  }
}

double inner_product(const double* HWY_RESTRICT a, const double* HWY_RESTRICT b, int64_t n) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) sums = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums);
  double sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {
namespace {

HWY_EXPORT(multiply);
HWY_EXPORT(inner_product);

double product(const double* a, const double* b, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(inner_product)(a, b, n);
}

// The first `count` elements of row `j` of A - u·wᵀ - w·uᵀ.
void reflect_row(double* row, int64_t j, int64_t count, const double* u, const double* w) {
  for (int64_t c = 0; c < count; ++c) row[c] -= u[j] * w[c] + w[j] * u[c];
}

// QL takes about two steps for a value, and each is over what is left: 1.1 n² rotations, 1.3 n² of what is
// hard.
int64_t rotations_of(int64_t n) {
  return 2 * n * n;
}
int64_t sweeps_of(int64_t n) {
  return 8 * n;
}

}  // namespace

Eigen::Eigen(Workspace& space, int64_t n, int64_t stride) : n_(n), stride_(stride) {
  matrix_ = space.take<double>(stride * stride);
  halves_ = space.take<double>(n);
  diagonal_ = space.take<double>(n);
  beside_ = space.take<double>(n);
  products_ = space.take<double>(n);
  taken_off_ = space.take<double>(n);
  rotation_ = space.take<Rotation>(rotations_of(n));
  sweep_ = space.take<Sweep>(sweeps_of(n));
}

int64_t Eigen::room() const {
  return rotations_of(n_);
}

void Eigen::solve() {
  make_tridiagonal();
  make_diagonal();
}

void Eigen::make_tridiagonal() {
  const double* before = nullptr;  // the last reflector, whose taken_off_ rows above it do not know yet
  for (int64_t i = n_ - 1; i >= 0; --i) {
    double* const row = matrix_ + i * stride_;
    if (before) reflect_row(row, i, i + 1, before, taken_off_);
    diagonal_[i] = row[i];
    halves_[i] = 0;
    if (i == 0) break;
    // All but the last of the elements before the diagonal are to become 0.
    beside_[i - 1] = row[i - 1];
    const double rest = product(row, row, i - 1), square = rest + row[i - 1] * row[i - 1];
    if (!(rest > 0)) {
      for (int64_t j = 0; before && j < i; ++j)
        reflect_row(matrix_ + j * stride_, j, j + 1, before, taken_off_);
      before = nullptr;
      continue;
    }
    beside_[i - 1] = -std::copysign(std::sqrt(square), row[i - 1]);
    const double half = square - row[i - 1] * beside_[i - 1];
    row[i - 1] -= beside_[i - 1];
    halves_[i] = half;
    HWY_DYNAMIC_DISPATCH(multiply)(matrix_, stride_, i, before, taken_off_, row, products_);
    for (int64_t c = 0; c < i; ++c) products_[c] /= half;
    const double along = product(row, products_, i) / (2 * half);
    for (int64_t c = 0; c < i; ++c) taken_off_[c] = products_[c] - along * row[c];
    before = row;
  }
}

// What is smaller than rounding of the whole is nothing: there is no more to be known of a matrix of
// products.
void Eigen::make_diagonal() {
  rotations_ = sweeps_ = 0;
  double largest = 0;
  for (int64_t i = 0; i < n_; ++i) largest = std::max(largest, std::abs(diagonal_[i]));
  const double nothing = std::numeric_limits<double>::epsilon() * largest;
  for (int64_t first = 0; first < n_;) {
    int64_t last = first;
    while (last + 1 < n_ && std::abs(beside_[last]) > nothing) ++last;
    if (last == first) {
      ++first;
      continue;
    }
    if (rotations_ + (last - first) > rotations_of(n_) || sweeps_ == sweeps_of(n_)) return;
    step(first, last);
  }
}

void Eigen::step(int64_t first, int64_t last) {
  sweep_[sweeps_++] = {first, last};
  const double lean = (diagonal_[first + 1] - diagonal_[first]) / (2 * beside_[first]);
  const double shift =
      beside_[first] / (lean + std::copysign(std::sqrt(lean * lean + 1), lean)) - diagonal_[first];
  double g = diagonal_[last] + shift, sine = 1, cosine = 1, moved = 0;
  for (int64_t i = last - 1; i >= first; --i) {
    const double f = sine * beside_[i], b = cosine * beside_[i], r = std::sqrt(f * f + g * g);
    // Without a length there is nothing to turn.
    sine = r > 0 ? f / r : 0;
    cosine = r > 0 ? g / r : 1;
    if (i + 1 < last) beside_[i + 1] = r;
    g = diagonal_[i + 1] - moved;
    const double turned = (diagonal_[i] - g) * sine + 2 * cosine * b;
    moved = sine * turned;
    diagonal_[i + 1] = g + moved;
    g = cosine * turned - b;
    rotation_[rotations_++] = {cosine, sine};
  }
  diagonal_[first] -= moved;
  beside_[first] = g;
}

void Eigen::vector(int64_t i, double* v) const {
  std::fill_n(v, n_, 0.0);
  v[i] = 1;
  const Rotation* rotation = rotation_ + rotations_;
  for (int64_t s = sweeps_ - 1; s >= 0; --s) {
    for (int64_t at = sweep_[s].first; at < sweep_[s].last; ++at) {
      const auto [cosine, sine] = *--rotation;
      const double before = v[at];
      v[at] = cosine * before + sine * v[at + 1];
      v[at + 1] = cosine * v[at + 1] - sine * before;
    }
  }
  for (int64_t row = 0; row < n_; ++row) {
    if (halves_[row] == 0) continue;
    const double* const u = matrix_ + row * stride_;
    const double times = product(u, v, row) / halves_[row];
    for (int64_t c = 0; c < row; ++c) v[c] -= times * u[c];
  }
}

}  // namespace trireme::cpu
#endif

// svd_sample: one-sided Jacobi rotations, in double precision, make the vectors along the longer side
// orthogonal; each is then a singular part, with what it is turned by. How likely each is drawn grows with
// its length, and as many as are wanted are drawn with one number: where it, 1 more, 2 more, … fall on the
// probabilities put side by side. One thread: pairs wait for each other.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "trireme/base/rng.h"
#include "trireme/kernels/cpu/context.h"

namespace trireme::cpu {
namespace {

constexpr int kMostSweeps = 60;
constexpr double kOrthogonal = 1e-13;  // cosine
// Of the squares of all: what is left of a vector that depends on others is rounding, and turning it goes on
// for ever.
constexpr double kNothing = 1e-28;

struct Extents {
  int64_t rows, columns;
  bool along_rows() const { return rows <= columns; }  // vectors are rows
  int64_t vectors() const { return std::min(rows, columns); }
  int64_t length() const { return std::max(rows, columns); }
};

// In a kernel's workspace.
struct Parts {
  Parts(double* memory, const Extents& of)
      : vectors(memory),
        turns(vectors + of.vectors() * of.length()),
        lengths(turns + of.vectors() * of.vectors()),
        chances(lengths + of.vectors()),
        order(reinterpret_cast<int64_t*>(chances + of.vectors())) {}
  static size_t bytes(const Extents& of) {
    return static_cast<size_t>(of.vectors() * (of.length() + of.vectors() + 3)) * sizeof(double);
  }

  double* vectors;  // [vectors, length]
  double* turns;    // [vectors, vectors]: a row for each vector, of the parts of the first ones in it
  double* lengths;
  double* chances;
  int64_t* order;  // by length, the longest first
};

double product(const double* a, const double* b, int64_t n) {
  return std::inner_product(a, a + n, b, 0.0);
}

void rotate(double* a, double* b, int64_t n, double cosine, double sine) {
  for (int64_t i = 0; i < n; ++i) {
    const double before = a[i];
    a[i] = cosine * before - sine * b[i];
    b[i] = sine * before + cosine * b[i];
  }
}

void make_orthogonal(const Parts& parts, const Extents& of) {
  const int64_t count = of.vectors(), n = of.length();
  const double nothing = kNothing * product(parts.vectors, parts.vectors, count * n);
  bool turned = true;
  for (int sweep = 0; sweep < kMostSweeps && turned; ++sweep) {
    turned = false;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = i + 1; j < count; ++j) {
        double *a = parts.vectors + i * n, *b = parts.vectors + j * n;
        const double aa = product(a, a, n), bb = product(b, b, n), ab = product(a, b, n);
        if (!(std::abs(ab) > kOrthogonal * std::sqrt(aa * bb)) || std::min(aa, bb) <= nothing) continue;
        const double half = (bb - aa) / (2 * ab);
        const double tangent = std::copysign(1.0, half) / (std::abs(half) + std::sqrt(1 + half * half));
        const double cosine = 1 / std::sqrt(1 + tangent * tangent), sine = cosine * tangent;
        rotate(a, b, n, cosine, sine);
        rotate(parts.turns + i * count, parts.turns + j * count, count, cosine, sine);
        turned = true;
      }
    }
  }
}

// So that they add up to `wanted` and grow with the length, but none is above 1: those that would be are 1,
// and the others share what is left.
void set_chances(const Parts& parts, int64_t count, int64_t wanted) {
  std::iota(parts.order, parts.order + count, int64_t{0});
  std::sort(parts.order, parts.order + count, [&](int64_t a, int64_t b) {
    return parts.lengths[a] != parts.lengths[b] ? parts.lengths[a] > parts.lengths[b] : a < b;
  });
  double rest = std::accumulate(parts.lengths, parts.lengths + count, 0.0);
  for (int64_t i = 0; i < count; ++i) {
    const double length = parts.lengths[parts.order[i]];
    const double share = static_cast<double>(wanted) * length;
    if (wanted > 0 && share >= rest) {
      parts.chances[parts.order[i]] = 1;
      rest -= length;
      --wanted;
      continue;
    }
    for (; i < count; ++i)
      parts.chances[parts.order[i]] =
          rest > 0 ? static_cast<double>(wanted) * parts.lengths[parts.order[i]] / rest : 0;
  }
}

void svd_sample(const KernelContext& context) {
  const Extents of{context.inputs[0].shape[0], context.inputs[0].shape[1]};
  const int64_t count = of.vectors(), n = of.length(), wanted = context.attrs.integer("count");
  const Parts parts(reinterpret_cast<double*>(context.workspace), of);
  const float* x = context.in<float>(0);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < n; ++j)
      parts.vectors[i * n + j] = static_cast<double>(of.along_rows() ? x[i * n + j] : x[j * count + i]);
    for (int64_t j = 0; j < count; ++j) parts.turns[i * count + j] = i == j;
  }
  make_orthogonal(parts, of);
  for (int64_t i = 0; i < count; ++i) {
    const double* vector = parts.vectors + i * n;
    const double length = std::sqrt(product(vector, vector, n));
    parts.lengths[i] = std::isfinite(length) ? length : 0;  // a step that will be skipped
  }
  set_chances(parts, count, wanted);
  const RngKey key{static_cast<uint64_t>(context.attrs.integer("seed")),
                   static_cast<uint64_t>(context.attrs.integer("stream")) +
                       static_cast<uint64_t>(*context.in<float>(1)) * 0x9E3779B97F4A7C15u};
  double next = static_cast<double>(uniform(key, 0)), sum = 0;
  int64_t drawn = 0;
  // With as many parts to come as are still wanted, each is taken, whatever sums are rounded to.
  for (int64_t i = 0; i < count && drawn < wanted; ++i) {
    const int64_t part = parts.order[i];
    const double chance = parts.chances[part];
    sum += chance;
    if (!(sum > next) && count - i > wanted - drawn) continue;
    next += 1;
    const double* vector = parts.vectors + part * n;
    const double* turn = parts.turns + part * count;
    // Of the two signs that a singular vector may have, the one with the largest element positive.
    const double* largest =
        std::max_element(turn, turn + count, [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double sign = *largest < 0 ? -1 : 1, scale = chance > 0 ? sign / chance : 0;
    float* of_vector = context.out<float>(of.along_rows() ? 1 : 0) + drawn * n;
    float* of_turn = context.out<float>(of.along_rows() ? 0 : 1) + drawn * count;
    for (int64_t j = 0; j < n; ++j) of_vector[j] = static_cast<float>(scale * vector[j]);
    for (int64_t j = 0; j < count; ++j) of_turn[j] = static_cast<float>(sign * turn[j]);
    ++drawn;
  }
}

size_t workspace_bytes(const KernelShape& shape) {
  return Parts::bytes({shape.inputs[0].shape[0], shape.inputs[0].shape[1]});
}

}  // namespace

void add_svd_sample(KernelTable& table) {
  table.add("svd_sample", DType::f32, {svd_sample, workspace_bytes});
}

}  // namespace trireme::cpu

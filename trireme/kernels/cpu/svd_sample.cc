// svd_sample: the singular parts by the eigenvectors of the products of the vectors along the shorter side,
// in double precision. How likely each part is drawn grows with its singular value, and as many as are wanted
// are drawn with one number: where it, 1 more, 2 more, … fall on the probabilities put side by side. Only the
// parts that are drawn are made. Whatever eigenvalues are rounded to, all eigenvectors together are
// orthogonal, and a matrix is the sum of its projections on them: what is drawn is right in the mean.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/rng.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/eigen.h"
#include "trireme/kernels/cpu/gram.h"
#include "trireme/kernels/cpu/workspace.h"

namespace trireme::cpu {
namespace {

// Of the sum of all eigenvalues: what is less is rounding. Singular values are the roots of these, so that
// this is about the last digit of f32.
constexpr double kNothing = 1e-14;

FloatVectors vectors_of(const float* x, const Shape& shape) {
  const bool rows = shape[0] <= shape[1];
  return {x, std::min(shape[0], shape[1]), std::max(shape[0], shape[1]),
          rows ? FloatVectors::Lie::kRows : FloatVectors::Lie::kColumns};
}

struct Parts {
  Parts(Workspace space, const FloatVectors& of) : eigen(space, of.count, gram_stride(of.count)) {
    panel = space.take<double>(gram_panel_elements(of.count));
    lengths = space.take<double>(of.count);
    chances = space.take<double>(of.count);
    turn = space.take<double>(of.count);
    vector = space.take<double>(of.length);
    order = space.take<int64_t>(of.count);
    bytes = space.bytes();
  }

  Eigen eigen;
  double* panel;
  double* lengths;  // of all parts: the singular values
  double* chances;
  double* turn;    // of one part: its direction along the shorter side, of length 1,
  double* vector;  // and along the longer one, with its length
  int64_t* order;  // by length, the longest first
  size_t bytes;
};

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
  const FloatVectors vectors = vectors_of(context.in<float>(0), context.inputs[0].shape);
  const int64_t count = vectors.count, n = vectors.length, wanted = context.attrs.integer("count");
  Parts parts(Workspace(context.workspace), vectors);
  gram(vectors, parts.panel, parts.eigen.matrix(), pool_of(context));
  parts.eigen.solve();
  const double* const squares = parts.eigen.values();
  const double nothing = kNothing * std::accumulate(squares, squares + count, 0.0);
  for (int64_t i = 0; i < count; ++i)  // none where one is not finite: the step will be skipped
    parts.lengths[i] = squares[i] > nothing && std::isfinite(nothing) ? std::sqrt(squares[i]) : 0;
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
    const double *const turn = parts.turn, *const vector = parts.vector;
    parts.eigen.vector(part, parts.turn);
    add_up(vectors, turn, parts.vector);
    // Of the two signs that a singular vector may have, the one with the largest element positive.
    const double* largest =
        std::max_element(turn, turn + count, [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double sign = *largest < 0 ? -1 : 1, scale = chance > 0 ? sign / chance : 0;
    const int turn_at = vectors.lie == FloatVectors::Lie::kRows ? 0 : 1;
    float* of_turn = context.out<float>(turn_at) + drawn * count;
    float* of_vector = context.out<float>(1 - turn_at) + drawn * n;
    for (int64_t j = 0; j < n; ++j) of_vector[j] = static_cast<float>(scale * vector[j]);
    for (int64_t j = 0; j < count; ++j) of_turn[j] = static_cast<float>(sign * turn[j]);
    ++drawn;
  }
}

size_t workspace_bytes(const KernelShape& shape) {
  return Parts(Workspace(nullptr), vectors_of(nullptr, shape.inputs[0].shape)).bytes;
}

}  // namespace

void add_svd_sample(KernelTable& table) {
  table.add("svd_sample", DType::f32, {svd_sample, workspace_bytes});
}

}  // namespace trireme::cpu

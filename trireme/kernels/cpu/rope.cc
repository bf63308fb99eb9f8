// rope, rope_at: rotate the pairs (x[j], x[j + d/2]) of the last dim by position · base^(−2j/d). The cosines
// and sines of all positions go into workspace first, since every batch and head shares them.
#include <cmath>

#include "trireme/ir/pieces.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/rope.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include "trireme/kernels/cpu/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

// Exact angles are taken at the first of so many positions, and of each piece; the others follow from it by
// rotation in double precision, which is an order of magnitude faster than a sine each.
constexpr int64_t kPositions = 64;

struct Angles {
  int64_t half;  // d / 2
  double base;
  Positions at;
  double sign;

  // Fills rows [begin, end) of cosines[t][half] and sines[t][half].
  void fill(int64_t begin, int64_t end, float* cosines, float* sines) const {
    for (int64_t j = 0; j < half; ++j) {
      const double step = sign * std::pow(base, -static_cast<double>(j) / static_cast<double>(half));
      const double cos_step = std::cos(step), sin_step = std::sin(step);
      double c = 1, s = 0;
      for (int64_t t = begin; t < end; ++t) {
        if (t == begin || t % at.run == 0) {
          const double angle = step * static_cast<double>(at[t]);
          c = std::cos(angle);
          s = std::sin(angle);
        }
        cosines[t * half + j] = static_cast<float>(c);
        sines[t * half + j] = static_cast<float>(s);
        const double next = c * cos_step - s * sin_step;
        s = s * cos_step + c * sin_step;
        c = next;
      }
    }
  }
};

void rotate(const float* x, float* y, const float* cosines, const float* sines, int64_t half) {
  for_vectors(half, [&](int64_t j, auto access) TRIREME_VECTOR_BODY {
    const VF32 a = access.load(x + j), b = access.load(x + half + j);
    const VF32 c = access.load(cosines + j), s = access.load(sines + j);
    access.store(hn::NegMulAdd(b, s, hn::Mul(a, c)), y + j);
    access.store(hn::MulAdd(a, s, hn::Mul(b, c)), y + half + j);
  });
}

// Rotates row t of x[first row …] by the angle of position at[skip + t]. The table begins at at[0], so that a
// row gets the same bits in whatever run of rows it comes.
void rotate_rows(const KernelContext& context, int64_t first_row, int64_t rows, const Positions& at,
                 int64_t skip) {
  const Shape& shape = context.inputs[0].shape;
  const int64_t length = shape[1], width = shape.back();
  const int64_t heads = shape.elements(2, shape.rank() - 1);
  TRIREME_CHECK(width % 2 == 0);
  const float* x = context.in<float>(0) + first_row * heads * width;
  float* y = context.out<float>(0) + first_row * heads * width;
  const Attrs& attrs = context.attrs;
  const Angles angles{width / 2, attrs.real("base"), at, attrs.integer("inverse", 0) ? -1.0 : 1.0};
  float* cosines = reinterpret_cast<float*>(context.workspace);
  float* sines = cosines + (skip + length) * angles.half;
  pool_of(context).parallel_for(skip + length, kPositions,
                                [=](int64_t begin, int64_t end) { angles.fill(begin, end, cosines, sines); });
  pool_of(context).parallel_for(rows, row_grain(heads * width), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t table = (skip + row % length) * angles.half;
      for (int64_t head = row * heads; head < (row + 1) * heads; ++head) {
        rotate(x + head * width, y + head * width, cosines + table, sines + table, angles.half);
      }
    }
  });
}

void rope(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  rotate_rows(context, 0, shape[0] * shape[1],
              Positions(context.attrs, shape[1], context.attrs.integer("offset", 0)), 0);
}

void rope_at(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const int32_t* positions = context.in<int32_t>(1);
  for (int64_t b = 0; b < shape[0]; ++b) {
    const int64_t position = positions[b] + context.attrs.integer("offset", 0);
    const int64_t skip = (position % kPositions + kPositions) % kPositions;
    rotate_rows(context, b * shape[1], shape[1], Positions({}, skip + shape[1], position - skip), skip);
  }
}

size_t table_bytes(const KernelShape& shape, int64_t rows) {
  return rows * shape.inputs[0].shape.back() * sizeof(float);
}
size_t rope_workspace(const KernelShape& shape) {
  return table_bytes(shape, shape.inputs[0].shape[1]);
}
size_t rope_at_workspace(const KernelShape& shape) {
  return table_bytes(shape, shape.inputs[0].shape[1] + kPositions - 1);
}

}  // namespace

void add_rope_kernels(KernelTable& table) {
  table.add("rope", DType::f32, {rope, rope_workspace});
  table.add("rope_at", DType::f32, {rope_at, rope_at_workspace});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_rope_kernels);
void add_rope(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_rope_kernels)(table);
}

}  // namespace trireme::cpu
#endif

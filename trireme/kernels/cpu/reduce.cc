// sum, mean, max and sum_squares over any set of dims. Sums are taken in stretches of bounded length in
// f32 and added up in double (rows) or in blocks (columns), so that their error does not grow with size.
#include <algorithm>
#include <limits>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/convert.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/cpu/reduction.h"
#include "trireme/kernels/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/reduce.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include "trireme/kernels/cpu/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kStretch = 4096;  // elements of a row summed in f32
constexpr int64_t kRowBlock = 128;  // rows of a column summed in f32 before they join the total

struct Sum {
  static constexpr float kStart = 0;
  static VF32 add(F32, VF32 total, VF32 x) { return hn::Add(total, x); }
  static double combine(double a, double b) { return a + b; }
  static float lanes(VF32 v) { return sum_of_lanes(v); }
  VF32 operator()(F32, VF32 a, VF32 b) const { return hn::Add(a, b); }
};
struct SumSquares : Sum {
  static VF32 add(F32, VF32 total, VF32 x) { return hn::MulAdd(x, x, total); }
};
struct Max {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  static VF32 add(F32, VF32 total, VF32 x) { return hn::Max(total, x); }
  static double combine(double a, double b) { return std::max(a, b); }
  static float lanes(VF32 v) { return max_of_lanes(v); }
  VF32 operator()(F32, VF32 a, VF32 b) const { return hn::Max(a, b); }
};

// At most kStretch contiguous elements. Four accumulators hide the latency of additions.
template <class Op>
float reduce_stretch(const float* x, int64_t count) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  VF32 a = hn::Set(d, Op::kStart), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = Op::add(d, a, hn::LoadU(d, x + i));
    b = Op::add(d, b, hn::LoadU(d, x + i + lanes));
    c = Op::add(d, c, hn::LoadU(d, x + i + 2 * lanes));
    e = Op::add(d, e, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) a = Op::add(d, a, hn::LoadU(d, x + i));
  if (i < count) {
    const VF32 rest = load_part(d, x + i, count - i);
    b = Op::add(d, b, hn::IfThenElse(hn::FirstN(d, count - i), rest, hn::Set(d, Op::kStart)));
  }
  const Op combine;
  return Op::lanes(combine(d, combine(d, a, b), combine(d, c, e)));
}

// Elements [begin, end) of one output's reduced elements, which lie in rows of r.inner(). What is in 16 bits
// is widened by the stretch.
template <class Op>
double reduce_rows(const Reduction& r, const TensorView& x, int64_t kept, int64_t begin, int64_t end) {
  alignas(64) float widened[kStretch];
  double total = Op::kStart;
  while (begin < end) {
    const int64_t row = begin / r.inner(), column = begin % r.inner();
    const int64_t count = std::min({kStretch, r.inner() - column, end - begin});
    const int64_t first = r.offset(kept, row) + column;
    if (x.dtype != DType::f32) widen(x, first, count, widened);
    const float* stretch = x.dtype == DType::f32 ? x.as<float>() + first : widened;
    total = Op::combine(total, reduce_stretch<Op>(stretch, count));
    begin += count;
  }
  return total;
}

// The innermost group is reduced: each output is a number.
template <class Op>
void reduce_to_numbers(const KernelContext& context, const Reduction& r, double scale) {
  const TensorView& x = context.inputs[0];
  float* y = context.out<float>(0);
  double* partial = reinterpret_cast<double*>(context.workspace);
  const int64_t parts = r.parts(), elements = r.reduced_elements();
  const int64_t grain = row_grain(elements / parts);
  pool_of(context).parallel_for(r.kept_outer() * parts, grain, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t kept = task / parts, part = task % parts;
      const int64_t begin = part * elements / parts, end = (part + 1) * elements / parts;
      const double total = reduce_rows<Op>(r, x, kept, begin, end);
      if (parts > 1) {
        partial[task] = total;
      } else {
        y[kept] = static_cast<float>(total * scale);
      }
    }
  });
  if (parts == 1) return;
  for (int64_t kept = 0; kept < r.kept_outer(); ++kept) {
    double total = Op::kStart;
    for (int64_t part = 0; part < parts; ++part) total = Op::combine(total, partial[kept * parts + part]);
    y[kept] = static_cast<float>(total * scale);
  }
}

// Reduces columns [column, column + width) of the given rows into `to`.
template <class Op>
void reduce_columns(const Reduction& r, const float* x, int64_t kept, int64_t begin, int64_t end,
                    int64_t column, int64_t width, float* to) {
  alignas(64) float block[kReductionColumns];
  std::fill_n(to, width, Op::kStart);
  for (int64_t row = begin; row < end;) {
    std::memcpy(block, x + r.offset(kept, row) + column, width * sizeof(float));
    const int64_t block_end = std::min(row + kRowBlock, end);
    for (++row; row < block_end; ++row) map(Op(), width, block, block, x + r.offset(kept, row) + column);
    map(Op(), width, to, to, block);
  }
}

struct Scale {
  float scale;
  VF32 operator()(F32 d, VF32 x) const { return hn::Mul(x, hn::Set(d, scale)); }
};

// The innermost group is kept: each output is a row of r.inner() numbers.
template <class Op>
void reduce_to_rows(const KernelContext& context, const Reduction& r, double scale) {
  const float* x = context.in<float>(0);
  float* y = context.out<float>(0);
  const int64_t parts = r.parts(), rows = r.reduced_outer(), columns = r.inner();
  const int64_t bands = (columns + kReductionColumns - 1) / kReductionColumns;
  float* totals = parts > 1 ? reinterpret_cast<float*>(context.workspace) : y;
  const int64_t grain = row_grain(rows / parts * std::min(columns, kReductionColumns));
  pool_of(context).parallel_for(r.kept_outer() * parts * bands, grain, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t column = task % bands * kReductionColumns, part = task / bands % parts,
                    kept = task / bands / parts;
      reduce_columns<Op>(r, x, kept, part * rows / parts, (part + 1) * rows / parts, column,
                         std::min(kReductionColumns, columns - column),
                         totals + (kept * parts + part) * columns + column);
    }
  });
  if (parts > 1) {
    for (int64_t kept = 0; kept < r.kept_outer(); ++kept) {
      const float* from = totals + kept * parts * columns;
      std::memcpy(y + kept * columns, from, columns * sizeof(float));
      for (int64_t part = 1; part < parts; ++part) {
        map(Op(), columns, y + kept * columns, y + kept * columns, from + part * columns);
      }
    }
  }
  if (scale != 1) map(Scale{static_cast<float>(scale)}, r.kept_outer() * columns, y, y);
}

enum class Scaling { kNone, kMean };

template <class Op, Scaling kScaling = Scaling::kNone>
void reduce(const KernelContext& context) {
  const Reduction r(context.inputs[0].shape, context.attrs.integers("dims"));
  const double scale = kScaling == Scaling::kMean ? 1.0 / r.reduced_elements() : 1;
  r.inner_is_reduced() ? reduce_to_numbers<Op>(context, r, scale) : reduce_to_rows<Op>(context, r, scale);
}

constexpr std::array<int64_t, Shape::kMaxDims> kAllDims = {0, 1, 2, 3, 4, 5, 6, 7};

void sum_squares(const KernelContext& context) {
  reduce_to_numbers<SumSquares>(context, Reduction(context.inputs[0].shape, kAllDims), 1);
}

// One after another, as sum_squares and add would.
void total_squares(const KernelContext& context) {
  float total = 0;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    KernelContext one = context;
    one.inputs = context.inputs.subspan(i, 1);
    sum_squares(one);
    total = i == 0 ? *context.out<float>(0) : total + *context.out<float>(0);
  }
  *context.out<float>(0) = total;
}

size_t partials_bytes(const Reduction& r) {
  if (r.parts() == 1) return 0;
  return r.kept_outer() * r.parts() * (r.inner_is_reduced() ? sizeof(double) : r.inner() * sizeof(float));
}
size_t reduce_workspace(const KernelShape& shape) {
  return partials_bytes(Reduction(shape.inputs[0].shape, shape.attrs.integers("dims")));
}
size_t sum_squares_workspace(const KernelShape& shape) {
  size_t most = 0;
  for (const TensorType& input : shape.inputs)
    most = std::max(most, partials_bytes(Reduction(input.shape, kAllDims)));
  return most;
}

}  // namespace

void add_reduce_kernels(KernelTable& table) {
  table.add("max", DType::f32, {reduce<Max>, reduce_workspace});
  table.add("mean", DType::f32, {reduce<Sum, Scaling::kMean>, reduce_workspace});
  table.add("sum", DType::f32, {reduce<Sum>, reduce_workspace});
  // Of gradients, which are large: their own kernels for 16 bits spare f32 copies.
  add_for_all_formats(table, "sum_squares", {sum_squares, sum_squares_workspace});
  add_for_all_formats(table, "total_squares", {total_squares, sum_squares_workspace});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_reduce_kernels);
void add_reduce(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_reduce_kernels)(table);
}

}  // namespace trireme::cpu
#endif

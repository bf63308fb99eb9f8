// layer_norm and rms_norm: y = (x − mean)·rstd·gain + bias over rows, where rms_norm has neither mean nor
// bias; the forms that add a residual first; and the gradients.
#include <algorithm>
#include <cmath>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/convert.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/norm.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include "trireme/kernels/cpu/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

enum class Norm { kLayer, kRms };

struct RowStats {
  float mean;  // 0 for rms_norm
  float rstd;
};

// The statistics of x, or of s = x + r, which is stored when r is given, as `format` holds it.
template <Norm kNorm>
RowStats row_stats(const float* x, const float* r, float* s, DType format, int64_t width, float eps) {
  const F32 d;
  VF32 sum = hn::Zero(d), squares = hn::Zero(d);
  if (r && format != DType::f32) {
    map(AddVectors(), width, s, x, r);
    round_to(format, s, width);
    r = nullptr;
    x = s;
  }
  if (r) {
    for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
      const VF32 v = hn::Add(access.load(x + i), access.load(r + i));
      access.store(v, s + i);
      if constexpr (kNorm == Norm::kLayer) sum = hn::Add(sum, v);
      if constexpr (kNorm == Norm::kRms) squares = hn::MulAdd(v, v, squares);
    });
    x = s;
  } else {
    for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
      const VF32 v = access.load(x + i);
      if constexpr (kNorm == Norm::kLayer) sum = hn::Add(sum, v);
      if constexpr (kNorm == Norm::kRms) squares = hn::MulAdd(v, v, squares);
    });
  }
  RowStats stats{0, 0};
  if constexpr (kNorm == Norm::kLayer) {
    // A second pass over the row, in cache by now: the mean of squares minus the squared mean would
    // lose all accuracy for rows far from zero.
    stats.mean = sum_of_lanes(sum) / static_cast<float>(width);
    const VF32 mean = hn::Set(d, stats.mean);
    for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
      const VF32 v = hn::Sub(access.load(x + i), mean);
      squares = access.keep(hn::MulAdd(v, v, squares), squares);
    });
  }
  stats.rstd = 1.0f / std::sqrt(sum_of_lanes(squares) / static_cast<float>(width) + eps);
  return stats;
}

template <Norm kNorm>
void normalize_row(const float* x, RowStats stats, const float* gain, const float* bias, float* y,
                   int64_t width) {
  const F32 d;
  const VF32 mean = hn::Set(d, stats.mean), rstd = hn::Set(d, stats.rstd);
  for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
    if constexpr (kNorm == Norm::kLayer) {
      const VF32 normal = hn::Mul(hn::Sub(access.load(x + i), mean), rstd);
      access.store(hn::MulAdd(normal, access.load(gain + i), access.load(bias + i)), y + i);
    } else {
      access.store(hn::Mul(hn::Mul(access.load(x + i), rstd), access.load(gain + i)), y + i);
    }
  });
}

// Inputs x, r when kResidual, gain, bias of layer_norm; outputs s when kResidual, y, mean of
// layer_norm, rstd.
enum class Residual { kNone, kAdded };

template <Norm kNorm, Residual kResidual>
void run_norm(const KernelContext& context) {
  constexpr int kAdded = kResidual == Residual::kAdded, kLayer = kNorm == Norm::kLayer;
  const float* x = context.in<float>(0);
  const float* r = kAdded ? context.in<float>(1) : nullptr;
  const float* gain = context.in<float>(1 + kAdded);
  const float* bias = kLayer ? context.in<float>(2 + kAdded) : nullptr;
  float* s = kAdded ? context.out<float>(0) : nullptr;
  float* y = context.out<float>(kAdded);
  float* mean = kLayer ? context.out<float>(1 + kAdded) : nullptr;
  float* rstd = context.out<float>(1 + kAdded + kLayer);
  const float eps = static_cast<float>(context.attrs.real("eps"));
  const DType format = context.format;
  const Shape& shape = context.inputs[0].shape;
  const int64_t width = shape.back(), rows = shape.elements(0, shape.rank() - 1);
  pool_of(context).parallel_for(rows, row_grain(width), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * width;
      const RowStats stats =
          row_stats<kNorm>(x + at, kAdded ? r + at : nullptr, s + at * kAdded, format, width, eps);
      normalize_row<kNorm>(kAdded ? s + at : x + at, stats, gain, bias, y + at, width);
      if (kLayer) mean[row] = stats.mean;
      rstd[row] = stats.rstd;
    }
  });
}

// With n = (x − mean)·rstd and e = dy·gain: dx = rstd·(e − avg(e) − n·avg(e·n)), where rms_norm lacks
// avg(e). Adds the row's part of dgain = Σ dy·n and dbias = Σ dy.
template <Norm kNorm>
void norm_grad_row(const float* dy, const float* x, const float* gain, RowStats stats, float* dx,
                   float* dgain, float* dbias, int64_t width) {
  const F32 d;
  const VF32 mean = hn::Set(d, stats.mean), rstd = hn::Set(d, stats.rstd);
  VF32 sum = hn::Zero(d), dot = hn::Zero(d);
  // Lanes past the end have dy = 0 and so add nothing.
  for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
    const VF32 g = access.load(dy + i);
    const VF32 n = hn::Mul(hn::Sub(access.load(x + i), mean), rstd);
    const VF32 e = hn::Mul(g, access.load(gain + i));
    sum = hn::Add(sum, e);
    dot = hn::MulAdd(e, n, dot);
    access.store(hn::MulAdd(g, n, access.load(dgain + i)), dgain + i);
    if constexpr (kNorm == Norm::kLayer) access.store(hn::Add(g, access.load(dbias + i)), dbias + i);
  });
  const float count = static_cast<float>(width);
  const VF32 average = hn::Set(d, kNorm == Norm::kLayer ? sum_of_lanes(sum) / count : 0);
  const VF32 average_dot = hn::Set(d, sum_of_lanes(dot) / count);
  for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
    const VF32 n = hn::Mul(hn::Sub(access.load(x + i), mean), rstd);
    const VF32 e = hn::Mul(access.load(dy + i), access.load(gain + i));
    access.store(hn::Mul(hn::NegMulAdd(n, average_dot, hn::Sub(e, average)), rstd), dx + i);
  });
}

// dgain and dbias are summed over blocks of rows first, as many as the shape alone says, and the
// blocks' sums are then added in order.
int64_t norm_grad_parts(int64_t rows) {
  return std::clamp<int64_t>(rows / 32, 1, 64);
}

template <Norm kNorm>
size_t norm_grad_workspace(const KernelShape& shape) {
  const Shape& x = shape.inputs[1].shape;
  const int64_t width = x.back(), rows = x.elements(0, x.rank() - 1);
  return norm_grad_parts(rows) * width * (kNorm == Norm::kLayer ? 2 : 1) * sizeof(float);
}

// Inputs dy, x, gain, mean of layer_norm, rstd; outputs dx, dgain, dbias of layer_norm.
template <Norm kNorm>
void run_norm_grad(const KernelContext& context) {
  constexpr int kLayer = kNorm == Norm::kLayer, kSums = 1 + kLayer;
  const float *dy = context.in<float>(0), *x = context.in<float>(1), *gain = context.in<float>(2);
  const float* mean = kLayer ? context.in<float>(3) : nullptr;
  const float* rstd = context.in<float>(3 + kLayer);
  float* dx = context.out<float>(0);
  float* partial = reinterpret_cast<float*>(context.workspace);  // [part][dgain, dbias][width]
  const Shape& shape = context.inputs[1].shape;
  const int64_t width = shape.back(), rows = shape.elements(0, shape.rank() - 1),
                parts = norm_grad_parts(rows);
  pool_of(context).parallel_for(parts, row_grain(rows / parts * width), [=](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      float* dgain = partial + part * kSums * width;
      std::fill_n(dgain, kSums * width, 0.0f);
      for (int64_t row = part * rows / parts; row < (part + 1) * rows / parts; ++row) {
        const int64_t at = row * width;
        const RowStats stats{kLayer ? mean[row] : 0, rstd[row]};
        norm_grad_row<kNorm>(dy + at, x + at, gain, stats, dx + at, dgain, dgain + width, width);
      }
    }
  });
  for (int sum = 0; sum < kSums; ++sum) {
    float* total = context.out<float>(1 + sum);
    pool_of(context).parallel_for(width, row_grain(parts), [=](int64_t begin, int64_t end) {
      std::fill(total + begin, total + end, 0.0f);
      for (int64_t part = 0; part < parts; ++part) {
        const float* from = partial + (part * kSums + sum) * width + begin;
        map(AddVectors(), end - begin, total + begin, total + begin, from);
      }
    });
  }
}

template <Norm kNorm>
void add_norm_as(KernelTable& table, const std::string& name) {
  table.add(name, DType::f32, {run_norm<kNorm, Residual::kNone>});
  table.add("add_" + name, DType::f32, {run_norm<kNorm, Residual::kAdded>});
  table.add(name + "_grad", DType::f32, {run_norm_grad<kNorm>, norm_grad_workspace<kNorm>});
}

}  // namespace

void add_norm_kernels(KernelTable& table) {
  add_norm_as<Norm::kLayer>(table, "layer_norm");
  add_norm_as<Norm::kRms>(table, "rms_norm");
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_norm_kernels);
void add_norm(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_norm_kernels)(table);
}

}  // namespace trireme::cpu
#endif

// cross_entropy and its gradient, over the last dim of the logits. The forward pass reads each row once:
// block by block it carries the largest logit so far and the sum of exponentials relative to it. Logits
// of 16 bits are widened a block at a time, because a widened copy of them all would be the largest
// tensor of a language model. cross_entropy_sums and cross_entropy_total are the same in two steps, for a
// part of the classes: the largest logit of the whole row is known beforehand.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/cross_entropy.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include "trireme/kernels/cpu/map-inl.h"
#include "trireme/kernels/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

// Elements [at, at + count) in f32: in place, or widened into `copy`.
const float* in_f32(const TensorView& tensor, int64_t at, int64_t count, float* copy) {
  if (tensor.dtype == DType::f32) return static_cast<const float*>(tensor.data) + at;
  widen(tensor, at, count, copy);
  return copy;
}

struct RowTotals {
  float largest = -std::numeric_limits<float>::infinity();
  double exponentials = 0;  // relative to `largest`
  double logits = 0;

  void add_block(const float* x, int64_t count) {
    const F32 d;
    VF32 block_largest = hn::Set(d, largest), block_logits = hn::Zero(d);
    for_vectors(count, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
      const VF32 v = access.load(x + i);
      block_largest = access.keep(hn::Max(block_largest, v), block_largest);
      block_logits = hn::Add(block_logits, v);
    });
    logits += sum_of_lanes(block_logits);
    const float now = max_of_lanes(block_largest);
    if (now > largest) exponentials *= std::exp(static_cast<double>(largest) - now);
    largest = now;
    const VF32 shift = hn::Set(d, now);
    VF32 total = hn::Zero(d);
    for_vectors(count, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
      total = access.keep(hn::Add(total, Exp(d, hn::Sub(access.load(x + i), shift))), total);
    });
    exponentials += sum_of_lanes(total);
  }
  double log_sum_exp() const { return largest + std::log(exponentials); }
};

struct Options {
  int64_t ignore_index;
  double label_smoothing;
  int64_t class_offset, classes;  // of which this is a part: its first, and how many there are in all
  Options(const Attrs& attrs, int64_t width)
      : ignore_index(attrs.integer("ignore_index", -1)),
        label_smoothing(attrs.real("label_smoothing", 0)),
        class_offset(attrs.integer("class_offset", 0)),
        classes(attrs.integer("classes", width)) {}
};

float logit(const TensorView& logits, int64_t at) {
  float value;
  return *in_f32(logits, at, 1, &value);
}

// Ids that come from a batch were checked with it; a model may also make targets of its own.
void check_targets(const int32_t* targets, int64_t rows, int64_t classes, int64_t ignored) {
  for (int64_t row = 0; row < rows; ++row) {
    if ((targets[row] >= 0 && targets[row] < classes) || targets[row] == ignored) continue;
    throw_error(
        "[cross_entropy] target {} is class {}, but there are {} classes; 0 to {} expected, or {} to ignore it",
        row, targets[row], classes, classes - 1, ignored);
  }
}

void cross_entropy(const KernelContext& context) {
  const TensorView& logits = context.inputs[0];
  const Options options(context.attrs, logits.shape.back());
  const int32_t* targets = context.in<int32_t>(1);
  float* lse = context.out<float>(2);
  double* losses = reinterpret_cast<double*>(context.workspace);
  const int64_t width = logits.shape.back(), rows = context.inputs[1].elements();
  check_targets(targets, rows, width, options.ignore_index);
  pool_of(context).parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end) {
    alignas(64) float copy[kBlock];
    for (int64_t row = begin; row < end; ++row) {
      RowTotals totals;
      for (int64_t i = 0; i < width; i += kBlock) {
        const int64_t count = std::min(kBlock, width - i);
        totals.add_block(in_f32(logits, row * width + i, count, copy), count);
      }
      const double row_lse = totals.log_sum_exp();
      lse[row] = static_cast<float>(row_lse);
      losses[row] = 0;
      if (targets[row] == options.ignore_index) continue;
      const double smooth = options.label_smoothing;
      losses[row] = row_lse - (1 - smooth) * logit(logits, row * width + targets[row]);
      if (smooth != 0) losses[row] -= smooth * totals.logits / static_cast<double>(width);
    }
  });
  double loss = 0;
  int64_t counted = 0;
  for (int64_t row = 0; row < rows; ++row) {
    loss += losses[row];
    counted += targets[row] != options.ignore_index;
  }
  *context.out<float>(0) = static_cast<float>(loss);
  *context.out<float>(1) = static_cast<float>(counted);
}

void cross_entropy_sums(const KernelContext& context) {
  const TensorView &logits = context.inputs[0], &largest = context.inputs[2];
  const int64_t width = logits.shape.back(), rows = context.inputs[1].elements();
  const Options options(context.attrs, width);
  const int32_t* targets = context.in<int32_t>(1);
  float *exponentials = context.out<float>(0), *expected = context.out<float>(1);
  const double smooth = options.label_smoothing;
  pool_of(context).parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end) {
    alignas(64) float copy[kBlock];
    for (int64_t row = begin; row < end; ++row) {
      const float given = logit(largest, row);
      RowTotals totals{.largest = given};
      for (int64_t i = 0; i < width; i += kBlock) {
        const int64_t count = std::min(kBlock, width - i);
        totals.add_block(in_f32(logits, row * width + i, count, copy), count);
      }
      exponentials[row] =
          static_cast<float>(totals.exponentials * std::exp(static_cast<double>(totals.largest) - given));
      double mean = smooth * totals.logits / static_cast<double>(options.classes);
      const int64_t target = targets[row] - options.class_offset;
      if (target >= 0 && target < width) mean += (1 - smooth) * logit(logits, row * width + target);
      expected[row] = static_cast<float>(mean);
    }
  });
}

void cross_entropy_total(const KernelContext& context) {
  const int64_t ignore_index = context.attrs.integer("ignore_index", -1);
  const TensorView& largest = context.inputs[0];
  const float *exponentials = context.in<float>(1), *expected = context.in<float>(2);
  const int32_t* targets = context.in<int32_t>(3);
  float* lse = context.out<float>(2);
  double loss = 0;
  int64_t counted = 0;
  for (int64_t row = 0; row < largest.elements(); ++row) {
    const double row_lse = logit(largest, row) + std::log(static_cast<double>(exponentials[row]));
    lse[row] = static_cast<float>(row_lse);
    if (targets[row] == ignore_index) continue;
    loss += row_lse - expected[row];
    ++counted;
  }
  *context.out<float>(0) = static_cast<float>(loss);
  *context.out<float>(1) = static_cast<float>(counted);
}

size_t cross_entropy_workspace(const KernelShape& shape) {
  return shape.inputs[1].shape.elements() * sizeof(double);
}

// dloss · (softmax − smooth / width), before the target's own share.
struct Gradient {
  float dloss, lse, uniform;
  VF32 operator()(F32 d, VF32 x) const {
    const VF32 p = Exp(d, hn::Sub(x, hn::Set(d, lse)));
    return hn::Mul(hn::Sub(p, hn::Set(d, uniform)), hn::Set(d, dloss));
  }
};

// Its dtype is that of dloss, f32, whatever the logits are.
void cross_entropy_grad(const KernelContext& context) {
  const float dloss = *context.in<float>(0);
  const TensorView& logits = context.inputs[1];
  const Options options(context.attrs, logits.shape.back());
  const TensorView& dlogits = context.outputs[0];
  const int32_t* targets = context.in<int32_t>(2);
  const float* lse = context.in<float>(3);
  const int64_t width = logits.shape.back(), rows = context.inputs[2].elements();
  const float smooth = static_cast<float>(options.label_smoothing);
  pool_of(context).parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end) {
    alignas(64) float copy[kBlock], result[kBlock];
    for (int64_t row = begin; row < end; ++row) {
      const int64_t target = targets[row] - options.class_offset;
      const bool counts = targets[row] != options.ignore_index;
      const Gradient gradient{dloss, lse[row], smooth / static_cast<float>(options.classes)};
      for (int64_t i = 0; i < width; i += kBlock) {
        const int64_t count = std::min(kBlock, width - i), at = row * width + i;
        const bool direct = dlogits.dtype == DType::f32;
        float* dx = direct ? static_cast<float*>(dlogits.data) + at : result;
        if (counts) {
          map(gradient, count, dx, in_f32(logits, at, count, copy));
          if (target >= i && target < i + count) dx[target - i] -= (1 - smooth) * dloss;
        } else {
          std::fill_n(dx, count, 0.0f);
        }
        if (!direct) narrow(dx, count, dlogits, at);
      }
    }
  });
}

}  // namespace

void add_cross_entropy_kernels(KernelTable& table) {
  add_for_all_formats(table, "cross_entropy", {cross_entropy, cross_entropy_workspace});
  add_for_all_formats(table, "cross_entropy_sums", {cross_entropy_sums});
  add_for_all_formats(table, "cross_entropy_total", {cross_entropy_total});
  table.add("cross_entropy_grad", DType::f32, {cross_entropy_grad});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_cross_entropy_kernels);
void add_cross_entropy(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_cross_entropy_kernels)(table);
}

}  // namespace trireme::cpu
#endif

// batch_norm, batch_norm_grad and batch_norm_inference over x[n c s…], and the parts that they are made of
// where rows are split. One channel is one unit of work. Statistics are taken block by block: a block fits
// the first-level cache, so its mean and its squared deviations from that mean take one read of memory, and
// blocks are merged in double precision, in order. That is as stable as two passes over the channel, and
// reads it once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/batch_norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/map-inl.h"
#include "trireme/kernels/kernel.h"

#ifndef TRIREME_BATCH_NORM_ONCE
#define TRIREME_BATCH_NORM_ONCE
namespace trireme::cpu {

// One channel of a tensor [n c s…]: `planes` runs of `count` floats, `stride` apart.
struct Channel {
  int64_t planes = 0, count = 0, stride = 0;

  int64_t elements() const { return planes * count; }

  static constexpr int64_t kBlock = 4096;  // floats

  // Calls visit(offset, count, planes) for blocks of at most kBlock floats that cover the channel:
  // several short planes or a piece of a long one.
  template <typename Visit>
  void for_each_block(const Visit& visit) const {
    const int64_t group = std::max<int64_t>(1, kBlock / count);
    for (int64_t plane = 0; plane < planes; plane += group) {
      for (int64_t i = 0; i < count; i += kBlock) {
        visit(plane * stride + i, std::min(kBlock, count - i), std::min(group, planes - plane));
      }
    }
  }
};

struct Moments {
  double mean = 0, squares = 0;  // squares: the sum of squared deviations
};
struct GradSums {
  double dy = 0, dy_x = 0;  // dy_x: Σ dy · (x − mean)
};

}  // namespace trireme::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Several sums side by side, so that the latency of an addition does not set the pace.
struct Sum {
  static constexpr int kChains = 4;
  V chain[kChains];
  float rest = 0;

  Sum() {
    for (V& sum : chain) sum = hn::Zero(D());
  }
  float total() const {
    return hn::GetLane(
               hn::SumOfLanes(D(), hn::Add(hn::Add(chain[0], chain[1]), hn::Add(chain[2], chain[3])))) +
           rest;
  }
};

// Calls vector(chain, i) for each whole vector of [0, count) and scalar(i) for what is left.
template <typename Vector, typename Scalar>
HWY_INLINE void for_each_vector(int64_t count, const Vector& vector, const Scalar& scalar) {
  const int64_t lanes = hn::Lanes(D());
  int64_t i = 0;
  for (; i + Sum::kChains * lanes <= count; i += Sum::kChains * lanes) {
    for (int k = 0; k < Sum::kChains; ++k) vector(k, i + k * lanes);
  }
  for (; i + lanes <= count; i += lanes) vector(0, i);
  for (; i < count; ++i) scalar(i);
}

Moments channel_moments(const float* x, const Channel& channel) {
  const D d;
  Moments all;
  double seen = 0;
  channel.for_each_block([&](int64_t offset, int64_t count, int64_t planes) HWY_ATTR {
    const double size = static_cast<double>(count * planes);
    Sum sum;
    for (int64_t plane = 0; plane < planes; ++plane) {
      const float* const from = x + offset + plane * channel.stride;
      for_each_vector(
          count,
          [&](int k, int64_t i) HWY_ATTR { sum.chain[k] = hn::Add(sum.chain[k], hn::LoadU(d, from + i)); },
          [&](int64_t i) { sum.rest += from[i]; });
    }
    const float mean = static_cast<float>(sum.total() / size);
    const V mean_v = hn::Set(d, mean);
    // The mean was rounded: Σ (x − m) corrects for it.
    Sum deviation, square;
    for (int64_t plane = 0; plane < planes; ++plane) {
      const float* const from = x + offset + plane * channel.stride;
      for_each_vector(
          count,
          [&](int k, int64_t i) HWY_ATTR {
            const V off = hn::Sub(hn::LoadU(d, from + i), mean_v);
            deviation.chain[k] = hn::Add(deviation.chain[k], off);
            square.chain[k] = hn::MulAdd(off, off, square.chain[k]);
          },
          [&](int64_t i) {
            const float off = from[i] - mean;
            deviation.rest += off;
            square.rest += off * off;
          });
    }
    const double correction = deviation.total() / size;
    const double block_mean = mean + correction;
    const double block_squares = std::max(0.0, square.total() - correction * correction * size);
    const double distance = block_mean - all.mean, together = seen + size;
    all.mean += distance * (size / together);
    all.squares += block_squares + distance * distance * (seen * size / together);
    seen = together;
  });
  return all;
}

GradSums channel_grad_sums(const float* dy, const float* x, float mean, const Channel& channel) {
  const D d;
  const V mean_v = hn::Set(d, mean);
  GradSums all;
  channel.for_each_block([&](int64_t offset, int64_t count, int64_t planes) HWY_ATTR {
    Sum dy_sum, dy_x_sum;
    for (int64_t plane = 0; plane < planes; ++plane) {
      const int64_t start = offset + plane * channel.stride;
      for_each_vector(
          count,
          [&](int k, int64_t i) HWY_ATTR {
            const V g = hn::LoadU(d, dy + start + i);
            dy_sum.chain[k] = hn::Add(dy_sum.chain[k], g);
            dy_x_sum.chain[k] =
                hn::MulAdd(g, hn::Sub(hn::LoadU(d, x + start + i), mean_v), dy_x_sum.chain[k]);
          },
          [&](int64_t i) {
            dy_sum.rest += dy[start + i];
            dy_x_sum.rest += dy[start + i] * (x[start + i] - mean);
          });
    }
    all.dy += dy_sum.total();
    all.dy_x += dy_x_sum.total();
  });
  return all;
}

// y = (x − mean) · scale + bias. y may be x.
void normalize_channel(const float* x, const Channel& channel, float mean, float scale, float bias,
                       float* y) {
  const D d;
  const V mean_v = hn::Set(d, mean), scale_v = hn::Set(d, scale), bias_v = hn::Set(d, bias);
  for (int64_t plane = 0; plane < channel.planes; ++plane) {
    const int64_t start = plane * channel.stride;
    for_vectors(channel.count, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
      const V off = hn::Sub(access.load(x + start + i), mean_v);
      access.store(hn::MulAdd(off, scale_v, bias_v), y + start + i);
    });
  }
}

// dx = by_dy · dy + by_x · (x − mean) + shift. dx may be dy or x.
void channel_grad(const float* dy, const float* x, const Channel& channel, float mean, float by_dy,
                  float by_x, float shift, float* dx) {
  const D d;
  const V mean_v = hn::Set(d, mean), dy_v = hn::Set(d, by_dy), x_v = hn::Set(d, by_x),
          shift_v = hn::Set(d, shift);
  for (int64_t plane = 0; plane < channel.planes; ++plane) {
    const int64_t start = plane * channel.stride;
    for_vectors(channel.count, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
      const V off = hn::Sub(access.load(x + start + i), mean_v);
      const V part = hn::MulAdd(off, x_v, shift_v);
      access.store(hn::MulAdd(access.load(dy + start + i), dy_v, part), dx + start + i);
    });
  }
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {
namespace {

HWY_EXPORT(channel_moments);
HWY_EXPORT(channel_grad_sums);
HWY_EXPORT(normalize_channel);
HWY_EXPORT(channel_grad);

// Calls body(c, offset of its first element) for each channel of x.
template <typename Body>
void for_each_channel(const KernelContext& context, const Shape& x, const Body& body) {
  const int64_t count = x.elements(2, x.rank());
  pool_of(context).parallel_for(x[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) body(c, c * count);
  });
}
// One of `groups` of rows.
Channel channel_of(const Shape& x, int64_t groups = 1) {
  const int64_t count = x.elements(2, x.rank());
  return {x[0] / groups, count, x[1] * count};
}

void batch_norm(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const int64_t groups = context.attrs.integer("groups", 1), channels = shape[1];
  const Channel channel = channel_of(shape, groups);
  const double eps = context.attrs.real("eps"), momentum = context.attrs.real("momentum", 0.1);
  const double size = static_cast<double>(channel.elements());
  // Running statistics take the mean over all groups, of which a part adds its share.
  const double all_groups = static_cast<double>(context.attrs.integer("all_groups", groups));
  const float *const x = context.in<float>(0), *const gain = context.in<float>(1),
                     *const bias = context.in<float>(2);
  const float *const running_mean = context.in<float>(3), *const running_var = context.in<float>(4);
  float *const y = context.out<float>(0), *const mean = context.out<float>(1),
               *const rstd = context.out<float>(2);
  float *const new_mean = context.out<float>(3), *const new_var = context.out<float>(4);
  for_each_channel(context, shape, [&](int64_t c, int64_t first) {
    double mean_of_groups = 0, var_of_groups = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t offset = first + g * channel.planes * channel.stride, at = g * channels + c;
      const Moments moments = HWY_DYNAMIC_DISPATCH(channel_moments)(x + offset, channel);
      mean[at] = static_cast<float>(moments.mean);
      rstd[at] = static_cast<float>(1 / std::sqrt(moments.squares / size + eps));
      mean_of_groups += moments.mean / all_groups;
      var_of_groups += moments.squares / std::max(1.0, size - 1) / all_groups;
      HWY_DYNAMIC_DISPATCH(normalize_channel)
      (x + offset, channel, mean[at], rstd[at] * gain[c], bias[c], y + offset);
    }
    const double kept = (1 - momentum) * static_cast<double>(groups) / all_groups;
    new_mean[c] = static_cast<float>(kept * running_mean[c] + momentum * mean_of_groups);
    new_var[c] = static_cast<float>(kept * running_var[c] + momentum * var_of_groups);
  });
}

// dx = gain·rstd · (dy − dbias/size − x̂·dgain/size), with x̂ = (x − mean)·rstd. dy_x is dgain / rstd.
void apply_grad(const float* dy, const float* x, const Channel& channel, const GradSums& sums, double size,
                double gain, float mean, double rstd, float* dx) {
  const double scale = gain * rstd;
  const double by_x = -scale * rstd * rstd * sums.dy_x / size;
  HWY_DYNAMIC_DISPATCH(channel_grad)
  (dy, x, channel, mean, static_cast<float>(scale), static_cast<float>(by_x),
   static_cast<float>(-scale * sums.dy / size), dx);
}

void batch_norm_grad(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const int64_t groups = context.attrs.integer("groups", 1), channels = shape[1];
  const Channel channel = channel_of(shape, groups);
  const double size = static_cast<double>(channel.elements());
  const float *const dy = context.in<float>(0), *const x = context.in<float>(1),
                     *const gain = context.in<float>(2);
  const float *const mean = context.in<float>(3), *const rstd = context.in<float>(4);
  float *const dx = context.out<float>(0), *const dgain = context.out<float>(1),
               *const dbias = context.out<float>(2);
  for_each_channel(context, shape, [&](int64_t c, int64_t first) {
    double gain_sum = 0, bias_sum = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t offset = first + g * channel.planes * channel.stride, at = g * channels + c;
      const GradSums sums =
          HWY_DYNAMIC_DISPATCH(channel_grad_sums)(dy + offset, x + offset, mean[at], channel);
      gain_sum += sums.dy_x * rstd[at];
      bias_sum += sums.dy;
      apply_grad(dy + offset, x + offset, channel, sums, size, gain[c], mean[at], rstd[at], dx + offset);
    }
    dgain[c] = static_cast<float>(gain_sum);
    dbias[c] = static_cast<float>(bias_sum);
  });
}

void batch_norm_grad_sums(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const Channel channel = channel_of(shape);
  const float *const dy = context.in<float>(0), *const x = context.in<float>(1);
  const float *const mean = context.in<float>(2), *const rstd = context.in<float>(3);
  float *const dgain = context.out<float>(0), *const dbias = context.out<float>(1);
  for_each_channel(context, shape, [&](int64_t c, int64_t offset) {
    const GradSums sums = HWY_DYNAMIC_DISPATCH(channel_grad_sums)(dy + offset, x + offset, mean[c], channel);
    dgain[c] = static_cast<float>(sums.dy_x * rstd[c]);
    dbias[c] = static_cast<float>(sums.dy);
  });
}

void batch_norm_grad_input(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const Channel channel = channel_of(shape);
  const double size = context.attrs.real("count");
  const float *const dy = context.in<float>(0), *const x = context.in<float>(1),
                     *const gain = context.in<float>(2), *const mean = context.in<float>(3),
                     *const rstd = context.in<float>(4);
  const float *const dgain = context.in<float>(5), *const dbias = context.in<float>(6);
  float* const dx = context.out<float>(0);
  for_each_channel(context, shape, [&](int64_t c, int64_t offset) {
    const GradSums sums{dbias[c], static_cast<double>(dgain[c]) / rstd[c]};
    apply_grad(dy + offset, x + offset, channel, sums, size, gain[c], mean[c], rstd[c], dx + offset);
  });
}

void channel_sum(const KernelContext& context) {
  const Channel channel = channel_of(context.inputs[0].shape);
  const float* const x = context.in<float>(0);
  for_each_channel(context, context.inputs[0].shape, [&](int64_t c, int64_t offset) {
    const Moments moments = HWY_DYNAMIC_DISPATCH(channel_moments)(x + offset, channel);
    context.out<float>(0)[c] = static_cast<float>(moments.mean * static_cast<double>(channel.elements()));
  });
}

void channel_squares(const KernelContext& context) {
  const Channel channel = channel_of(context.inputs[0].shape);
  const float *const x = context.in<float>(0), *const mean = context.in<float>(1);
  for_each_channel(context, context.inputs[0].shape, [&](int64_t c, int64_t offset) {
    const Moments moments = HWY_DYNAMIC_DISPATCH(channel_moments)(x + offset, channel);
    const double distance = moments.mean - mean[c], size = static_cast<double>(channel.elements());
    context.out<float>(0)[c] = static_cast<float>(moments.squares + distance * distance * size);
  });
}

void batch_norm_inference(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const Channel channel = channel_of(shape);
  const double eps = context.attrs.real("eps");
  const float *const x = context.in<float>(0), *const gain = context.in<float>(1),
                     *const bias = context.in<float>(2);
  const float *const mean = context.in<float>(3), *const var = context.in<float>(4);
  float* const y = context.out<float>(0);
  for_each_channel(context, shape, [&](int64_t c, int64_t offset) {
    const float scale = static_cast<float>(gain[c] / std::sqrt(var[c] + eps));
    HWY_DYNAMIC_DISPATCH(normalize_channel)(x + offset, channel, mean[c], scale, bias[c], y + offset);
  });
}

}  // namespace

void add_batch_norm(KernelTable& table) {
  table.add("batch_norm", DType::f32, {batch_norm});
  table.add("batch_norm_grad", DType::f32, {batch_norm_grad});
  table.add("batch_norm_inference", DType::f32, {batch_norm_inference});
  table.add("channel_sum", DType::f32, {channel_sum});
  table.add("channel_squares", DType::f32, {channel_squares});
  table.add("batch_norm_grad_sums", DType::f32, {batch_norm_grad_sums});
  table.add("batch_norm_grad_input", DType::f32, {batch_norm_grad_input});
}

}  // namespace trireme::cpu
#endif

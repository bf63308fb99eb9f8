// attention_merge: with L = log(e^L1 + e^L2), o = e^(L1 − L) · o1 + e^(L2 − L) · o2. −∞ stands for a query
// that has seen no key yet.
#include <cmath>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

// In double precision: one rounding of the sum, however many parts come one after another.
double log_of_sum(double a, double b) {
  const double larger = std::max(a, b);
  return std::isinf(larger) ? larger : larger + std::log1p(std::exp(std::min(a, b) - larger));
}
double weight(double of, double all) {
  return std::isinf(of) ? 0 : std::exp(of - all);
}

void merge(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;  // b t g r d
  const int64_t length = shape[1], heads = shape[2] * shape[3], width = shape[4];
  const float *o1 = context.in<float>(0), *lse1 = context.in<float>(1), *o2 = context.in<float>(2),
              *lse2 = context.in<float>(3);
  float *o = context.out<float>(0), *lse = context.out<float>(1);
  pool_of(context).parallel_for(shape[0] * length, row_grain(heads * width), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = (row / length * heads + head) * length + row % length;
        const double first = lse1[at], second = lse2[at], both = log_of_sum(first, second);
        const auto w1 = static_cast<float>(weight(first, both)),
                   w2 = static_cast<float>(weight(second, both));
        const int64_t from = (row * heads + head) * width;
        for (int64_t i = from; i < from + width; ++i) o[i] = w1 * o1[i] + w2 * o2[i];
        lse[at] = static_cast<float>(both);
      }
    }
  });
}

}  // namespace

void add_attention_merge(KernelTable& table) {
  table.add("attention_merge", DType::f32, {merge});
}

}  // namespace trireme::cpu

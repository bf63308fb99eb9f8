// cast: between the floating-point formats, and from integers to them. Everything goes through f32, so
// that formats need two conversions each and not one per pair.
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/elementwise.h"

namespace trireme::cpu {
namespace {

void cast(const KernelContext& context) {
  const TensorView& x = context.inputs[0];
  const TensorView& y = context.outputs[0];
  pool_of(context).parallel_for(x.elements(), kElementGrain, [&](int64_t first, int64_t last) {
    if (y.dtype == DType::f32) return widen(x, first, last - first, y.as<float>() + first);
    if (x.dtype == DType::f32) return narrow(x.as<float>() + first, last - first, y, first);
    alignas(64) float block[kBlock];
    for (int64_t begin = first; begin < last; begin += kBlock) {
      const int64_t count = std::min(kBlock, last - begin);
      widen(x, begin, count, block);
      narrow(block, count, y, begin);
    }
  });
}

}  // namespace

void add_cast(KernelTable& table) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) table.add("cast", dtype, {cast});
}

}  // namespace trireme::cpu

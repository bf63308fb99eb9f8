// The gradient of max: elements equal to the maximum share the gradient of their output evenly.
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/cpu/reduction.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

void max_grad(const KernelContext& context) {
  const float* dy = context.in<float>(0);
  const float* x = context.in<float>(1);
  const float* y = context.in<float>(2);
  float* dx = context.out<float>(0);
  const Reduction r(context.inputs[1].shape, context.attrs.integers("dims"));
  // Every output owns elements at `step` apart in each of its rows.
  const int64_t outputs_in_row = r.inner_is_reduced() ? 1 : r.inner();
  const int64_t step = outputs_in_row, row = r.inner();
  const int64_t outputs = r.kept_outer() * outputs_in_row;
  pool_of(context).parallel_for(outputs, row_grain(r.reduced_elements()), [&](int64_t begin, int64_t end) {
    for (int64_t output = begin; output < end; ++output) {
      const auto for_each = [&](const auto& visit) {
        for (int64_t outer = 0; outer < r.reduced_outer(); ++outer) {
          const int64_t first = r.offset(output / outputs_in_row, outer);
          for (int64_t i = output % outputs_in_row; i < row; i += step) visit(first + i);
        }
      };
      int64_t ties = 0;
      for_each([&](int64_t i) { ties += x[i] == y[output]; });
      const float share = dy[output] / static_cast<float>(std::max<int64_t>(1, ties));
      for_each([&](int64_t i) { dx[i] = x[i] == y[output] ? share : 0; });
    }
  });
}

}  // namespace

void add_max_grad(KernelTable& table) {
  table.add("max_grad", DType::f32, {max_grad});
}

}  // namespace trireme::cpu

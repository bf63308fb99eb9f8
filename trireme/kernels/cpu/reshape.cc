// reshape, transpose and broadcast: the same elements in another order or shape, of any dtype.
#include <cstring>

#include "trireme/kernels/cpu/all_dtypes.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/cpu/strided_copy.h"

namespace trireme::cpu {
namespace {

// A reshape that could not be planned away; where the planner gave both the same memory it is free.
void reshape(const KernelContext& context) {
  const TensorView& x = context.inputs[0];
  const TensorView& y = context.outputs[0];
  TRIREME_CHECK(x.bytes() == y.bytes());
  if (x.data == y.data) return;
  pool_of(context).parallel_for(x.bytes(), kElementGrain * sizeof(float), [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(y.data) + begin, static_cast<std::byte*>(x.data) + begin,
                end - begin);
  });
}

void transpose(const KernelContext& context) {
  const Strides of_x = dense_strides(context.inputs[0].shape);
  const auto& perm = context.attrs.integers("perm");
  Strides strides{};
  for (size_t i = 0; i < perm.size(); ++i) strides[i] = of_x[perm[i]];
  strided_copy(context.inputs[0].data, strides, context.outputs[0], pool_of(context));
}

void broadcast(const KernelContext& context) {
  const Strides of_x = dense_strides(context.inputs[0].shape);
  const auto& dims = context.attrs.integers("dims");
  Strides strides{};
  for (size_t i = 0; i < dims.size(); ++i) strides[dims[i]] = of_x[i];
  strided_copy(context.inputs[0].data, strides, context.outputs[0], pool_of(context));
}

}  // namespace

void add_reshape(KernelTable& table) {
  add_for_all_dtypes(table, "reshape", {reshape});
  add_for_all_dtypes(table, "transpose", {transpose});
  add_for_all_dtypes(table, "broadcast", {broadcast});
}

}  // namespace trireme::cpu

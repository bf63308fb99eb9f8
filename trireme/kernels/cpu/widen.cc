// 16-bit storage for every op: kernels that widen their 16-bit inputs into workspace, run the op's f32 kernel
// and round its results back. Ops for which that wastes too much have their own 16-bit kernels.
//
// Workspace of a widened kernel: one f32 copy of each 16-bit tensor, inputs first, then what the f32
// kernel itself wants. Copies never share memory, so an op that works in place does so here too.
#include <array>
#include <string>
#include <vector>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/convert.h"
#include "trireme/kernels/cpu/grain.h"

namespace trireme::cpu {
namespace {

// More tensors than any op but concat has, and concat copies elements of any size itself.
constexpr size_t kMaxTensors = 16;

bool is_16_bit(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}

size_t copy_bytes(const Shape& shape) {
  return align_up(shape.elements() * sizeof(float));
}

// Views of the same tensors, the 16-bit ones replaced by f32 copies at `memory`, which is moved on.
class WidenedViews {
 public:
  WidenedViews(std::span<const TensorView> views, std::byte*& memory) : size_(views.size()) {
    TRIREME_CHECK(views.size() <= kMaxTensors);
    for (size_t i = 0; i < size_; ++i) {
      views_[i] = views[i];
      if (!is_16_bit(views[i].dtype)) continue;
      views_[i].dtype = DType::f32;
      views_[i].data = memory;
      memory += copy_bytes(views[i].shape);
    }
  }
  std::span<const TensorView> views() const { return {views_.data(), size_}; }

 private:
  std::array<TensorView, kMaxTensors> views_;
  size_t size_;
};

struct WidenedTypes {
  std::array<TensorType, kMaxTensors> types;
  size_t size;
  size_t bytes = 0;

  explicit WidenedTypes(std::span<const TensorType> from) : size(from.size()) {
    TRIREME_CHECK(size <= kMaxTensors);
    for (size_t i = 0; i < size; ++i) {
      types[i] = from[i];
      if (!is_16_bit(from[i].dtype)) continue;
      types[i].dtype = DType::f32;
      bytes += copy_bytes(from[i].shape);
    }
  }
  std::span<const TensorType> span() const { return {types.data(), size}; }
};

void run_widened(const Kernel& f32_kernel, const KernelContext& context) {
  std::byte* memory = context.workspace;
  const WidenedViews inputs(context.inputs, memory);
  const WidenedViews outputs(context.outputs, memory);
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const TensorView& from = context.inputs[i];
    if (!is_16_bit(from.dtype)) continue;
    float* to = inputs.views()[i].as<float>();
    pool_of(context).parallel_for(from.elements(), kElementGrain, [&](int64_t begin, int64_t end) {
      widen(from, begin, end - begin, to + begin);
    });
  }
  KernelContext widened{inputs.views(), outputs.views(), context.attrs, context.device, memory};
  for (const TensorView& to : context.outputs) {
    if (is_16_bit(to.dtype)) widened.format = to.dtype;
  }
  f32_kernel.launch(widened);
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    const TensorView& to = context.outputs[i];
    if (!is_16_bit(to.dtype)) continue;
    const float* from = outputs.views()[i].as<float>();
    pool_of(context).parallel_for(to.elements(), kElementGrain, [&](int64_t begin, int64_t end) {
      narrow(from + begin, end - begin, to, begin);
    });
  }
}

size_t widened_workspace(const Kernel& f32_kernel, const KernelShape& shape) {
  const WidenedTypes inputs(shape.inputs), outputs(shape.outputs);
  return inputs.bytes + outputs.bytes +
         f32_kernel.workspace({inputs.span(), outputs.span(), shape.attrs, shape.threads});
}

}  // namespace

// For each op of the table that has an f32 kernel but none of its own in bf16 or f16.
void add_widened(KernelTable& table) {
  const Kernel widened{
      .run = [](const KernelContext& context) { run_widened(*context.inner, context); },
      .workspace_bytes = [](const KernelShape& shape) { return widened_workspace(*shape.inner, shape); },
  };
  std::vector<std::pair<std::string, const Kernel*>> wanted;
  for (const auto& [key, kernel] : table.all()) {
    if (key.second == DType::f32) wanted.emplace_back(key.first, &kernel);
  }
  for (const auto& [op, f32_kernel] : wanted) {
    Kernel kernel = widened;
    kernel.inner = f32_kernel;
    for (DType dtype : {DType::bf16, DType::f16}) {
      if (!table.find(op, dtype)) table.add(op, dtype, kernel);
    }
  }
}

}  // namespace trireme::cpu

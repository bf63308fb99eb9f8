// Ops that stand for several others, which a device may do at less cost as one (passes/device_fuse.h). A
// device that has no kernel of its own for one does the parts one after another: right, and no faster.
#pragma once

#include <optional>
#include <vector>

#include "trireme/kernels/kernel.h"

namespace trireme {

struct Composition {
  // Number `value` of the op's inputs, its outputs and the temporaries, counted through; seen as `shape` if
  // that is said.
  struct Operand {
    int value;
    std::optional<Shape> shape = {};
  };
  struct Call {
    std::string op;
    std::vector<Operand> inputs, outputs;
    Attrs attrs = {};
  };
  std::vector<TensorType> temporaries;
  std::vector<Call> calls;
};

// The ops that are composed, and of what: a function of the types of the op's operands.
struct ComposedOp {
  std::string_view op;
  Composition (*parts)(const KernelShape&);
};
std::span<const ComposedOp> composed_ops();

size_t composed_workspace(const KernelShape& shape, const Composition& parts, const KernelTable& table);
void run_composed(const KernelContext& context, const Composition& parts, const KernelTable& table);

// Kernel::run and workspace_bytes of number `kOp` of composed_ops() for the device with this table.
template <const KernelTable& (*kTable)(), size_t kOp>
struct ComposedKernel {
  static size_t workspace(const KernelShape& shape) {
    return composed_workspace(shape, composed_ops()[kOp].parts(shape), kTable());
  }
  static void run(const KernelContext& context) {
    std::vector<TensorType> inputs, outputs;
    for (const TensorView& view : context.inputs) inputs.push_back({view.dtype, view.shape});
    for (const TensorView& view : context.outputs) outputs.push_back({view.dtype, view.shape});
    run_composed(context, composed_ops()[kOp].parts({inputs, outputs, context.attrs}), kTable());
  }
};

// In the order of composed_ops().
enum ComposedIndex : size_t {
  kAdamRounded,
  kAttentionPacked,
  kAttentionPackedGrad,
  kBatchNormNhwc,
  kBatchNormNhwcGrad,
  kConv2dNhwc,
  kConv2dNhwcGradInput,
  kConv2dNhwcGradWeight,
  kCrossEntropyWithGrad,
  kLayerNormGradAdd,
  kMap,
  kMatmulGeluGrad,
  kMatmulToF32,
  kMaxPool2dNhwc,
  kMaxPool2dNhwcGrad,
  kRmsNormGradAdd,
  kComposedOpCount,
};

}  // namespace trireme

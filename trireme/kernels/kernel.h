// What a kernel is: a function that computes the outputs of one node from its inputs, on one device.
// Kernels are bound to ops by name in a KernelTable; nothing else knows which kernels exist.
//
// Rules that every kernel keeps:
// - Inputs and outputs are dense and row-major. Outputs are uninitialised and must be written whole.
// - An output shares memory with an input only where the op's record allows it.
// - No heap allocation: temporary memory is asked for through `workspace` and planned beforehand.
// - The bits of the result depend on the inputs alone, not on the number of threads or their timing:
//   split work by output index, and give each reduction a fixed order.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/tensor_view.h"
#include "trireme/ir/attrs.h"
#include "trireme/ir/type.h"

namespace trireme {

struct Kernel;
class Communicator;

// A device that does not do what it was asked to, in its own words. Executor adds the op and the shapes.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// What a device gives its kernels to work with: a thread pool (cpu/context.h), a stream and the libraries'
// handles (cuda/context.h). Kernels know which of them is theirs; nothing else looks into it.
class DeviceContext {
 public:
  virtual ~DeviceContext() = default;
};

struct KernelContext {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const Attrs& attrs;
  DeviceContext& device;
  std::byte* workspace = nullptr;        // 64-byte aligned, as large as Kernel::workspace said
  Communicator* communicator = nullptr;  // for collectives; null where there is one rank
  const Kernel* inner = nullptr;         // set by Kernel::launch
  // Of the results. In a kernel that is widened (cpu/widen.cc) they are f32 here and rounded to this
  // afterwards; what a fused op would have stored between its parts has to be rounded to it as well.
  DType format = DType::f32;

  template <typename T>
  const T* in(int i) const {
    return inputs[i].as<T>();
  }
  template <typename T>
  T* out(int i) const {
    return outputs[i].as<T>();
  }
};

// What a kernel may know before it runs, to say how much workspace it wants.
struct KernelShape {
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  const Attrs& attrs;
  int threads = 1;
  const Kernel* inner = nullptr;  // set by Kernel::workspace
};

struct Kernel {
  void (*run)(const KernelContext&) = nullptr;
  size_t (*workspace_bytes)(const KernelShape&) = nullptr;  // null: none
  const Kernel* inner = nullptr;  // of a kernel that wraps another (cpu/widen.cc): the one it wraps
  // Where many nodes at once cost less than one after another: the same for nodes of which none reads or
  // overwrites what another writes. Null: there is nothing to gain. Such a kernel uses no workspace.
  void (*run_many)(std::span<const KernelContext>) = nullptr;
  // Of an op that stands for several others (composed.h): whether it costs less than they do. Null: no.
  bool (*gains)(const KernelShape&) = nullptr;

  // How to call a kernel: `run` and `workspace_bytes` alone do not know what is wrapped.
  void launch(KernelContext context) const {
    context.inner = inner;
    run(context);
  }
  size_t workspace(KernelShape shape) const {
    shape.inner = inner;
    return workspace_bytes ? workspace_bytes(shape) : 0;
  }
};

// Kernels by (op, dtype). The dtype of a node is that of its first floating-point input, or of its
// first output when it has none.
class KernelTable {
  using Map = std::map<std::pair<std::string, DType>, Kernel, std::less<>>;

 public:
  void add(std::string_view op, DType dtype, Kernel kernel);
  const Kernel* find(std::string_view op, DType dtype) const;  // null when there is none
  const Map& all() const { return kernels_; }                  // addresses of kernels are stable

 private:
  Map kernels_;
};

// For kernels that move elements without looking into them, and for those that compute in any format.
void add_for_all_dtypes(KernelTable& table, std::string_view op, Kernel kernel);
void add_for_all_formats(KernelTable& table, std::string_view op, Kernel kernel);

const KernelTable& cpu_kernels();
// The instruction set that they use on this machine, by Highway's name: "AVX3", "NEON".
std::string simd_target();

}  // namespace trireme

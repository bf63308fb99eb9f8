// Graphs of operations for cuDNN's backend, and plans to run them. A graph is built without a GPU; only a
// plan needs one.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trireme/base/dtype.h"

namespace trireme::cuda {

cudnnDataType_t cudnn_type(DType dtype);

// A descriptor of the backend, destroyed with the object.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const T> values) {
    set(name, type, static_cast<int64_t>(values.size()), values.data());
  }
  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& descriptor);
  // Throws a DeviceError in cuDNN's words, as `set` does.
  void finalize(const char* what);

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  std::shared_ptr<void> descriptor_;
};

class CudnnGraph {
 public:
  using Four = std::array<int64_t, 4>;
  struct Tensor {
    cudnnDataType_t type;
    Four dims, strides;
    CudnnDescriptor descriptor;
  };

  // In memory; the id is the one under which its address is given to a plan.
  Tensor real(int64_t id, cudnnDataType_t type, Four dims, Four strides);
  // One f32 that is given by value.
  Tensor scalar(int64_t id);
  // Made and used within the graph alone.
  Tensor inner(cudnnDataType_t type, Four dims, Four strides);

  void matmul(const Tensor& a, const Tensor& b, const Tensor& c);
  void unary(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y);
  void binary(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b, const Tensor& y);
  void index(int64_t dim, const Tensor& like, const Tensor& y);  // y: the index along a dim
  void select(const Tensor& mask, const Tensor& x, const Tensor& otherwise, const Tensor& y);
  void reduce(cudnnReduceTensorOp_t op, const Tensor& x, const Tensor& y);
  void reshape(const Tensor& x, const Tensor& y);

  struct Convolution {
    std::array<int64_t, 2> padding, stride, dilation;
  };
  enum class Of { kOutput, kInput, kWeight };  // what a convolution or its gradient makes
  void convolve(Of of, const Convolution& convolution, const Tensor& x, const Tensor& weight,
                const Tensor& y);

  size_t operations() const { return operations_.size(); }
  // The finished graph; `handle` may be null, and then it is good for nothing but to see that it finishes.
  CudnnDescriptor finish(cudnnHandle_t handle) const;

 private:
  struct Pointwise;
  Tensor tensor(int64_t id, cudnnDataType_t type, Four dims, Four strides,
                std::optional<cudnnBackendAttributeName_t> kind);
  void pointwise(const Pointwise& op);

  std::vector<CudnnDescriptor> operations_;
  int64_t next_inner_ = 1000;
};

// kAsTheyAre: no engine that multiplies by tensor cores, for which f32 is rounded to TF32.
enum class CudnnFactors { kAsTheyAre, kOfTensorCores };

// How a graph is run: the first plan of cuDNN's heuristics that keeps its promises.
class CudnnPlan {
 public:
  // No plan where cuDNN has no engine for the graph, none with so little workspace, or none of which the same
  // bits come out every time.
  static std::optional<CudnnPlan> of(const CudnnGraph& graph, cudnnHandle_t handle, size_t most_workspace,
                                     CudnnFactors factors);

  struct Binding {
    int64_t id;
    const void* address;  // of a scalar: in host memory
  };
  void run(cudnnHandle_t handle, std::span<const Binding> bindings, std::byte* workspace) const;

 private:
  CudnnDescriptor plan_;
};

}  // namespace trireme::cuda

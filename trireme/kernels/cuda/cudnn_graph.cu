// See cudnn_graph.h. Of the backend's attributes those are set that differ from their defaults.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/kernels/cuda/cudnn_graph.h"
#include "trireme/kernels/cuda/cudnn_library.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cuda {
namespace {

void check_dnn(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw DeviceError(fmt::format("cuDNN, {}: {}", what, cudnn()->cudnnGetErrorString(status)));
}

constexpr int64_t kAlignment = 16;

}  // namespace

cudnnDataType_t cudnn_type(DType dtype) {
  return dtype == DType::f32    ? CUDNN_DATA_FLOAT
         : dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16
                                : CUDNN_DATA_HALF;
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check_dnn(cudnn()->cudnnBackendCreateDescriptor(type, &made), "a descriptor");
  descriptor_.reset(made, [](void* p) { cudnn()->cudnnBackendDestroyDescriptor(p); });
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                          const void* values) {
  check_dnn(cudnn()->cudnnBackendSetAttribute(get(), name, type, count, values), "an attribute");
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& descriptor) {
  const cudnnBackendDescriptor_t inner = descriptor.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &inner);
}

void CudnnDescriptor::finalize(const char* what) {
  check_dnn(cudnn()->cudnnBackendFinalize(get()), what);
}

CudnnGraph::Tensor CudnnGraph::tensor(int64_t id, cudnnDataType_t type, Four dims, Four strides,
                                      std::optional<cudnnBackendAttributeName_t> kind) {
  CudnnDescriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const int64_t>(dims));
  d.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(strides));
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  if (kind) d.set(*kind, CUDNN_TYPE_BOOLEAN, true);
  d.finalize("a tensor");
  return {type, dims, strides, d};
}

CudnnGraph::Tensor CudnnGraph::real(int64_t id, cudnnDataType_t type, Four dims, Four strides) {
  return tensor(id, type, dims, strides, {});
}
CudnnGraph::Tensor CudnnGraph::scalar(int64_t id) {
  return tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}
CudnnGraph::Tensor CudnnGraph::inner(cudnnDataType_t type, Four dims, Four strides) {
  return tensor(next_inner_++, type, dims, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

void CudnnGraph::matmul(const Tensor& a, const Tensor& b, const Tensor& c) {
  CudnnDescriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finalize("a product");
  CudnnDescriptor op(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  op.finalize("a product");
  operations_.push_back(op);
}

struct CudnnGraph::Pointwise {
  cudnnPointwiseMode_t mode;
  const Tensor *x, *b, *mask, *y;  // b and mask: null where there is none
  cudnnDataType_t computed = CUDNN_DATA_FLOAT;
  std::optional<int64_t> dim;
};

void CudnnGraph::pointwise(const Pointwise& one) {
  CudnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, one.mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, one.computed);
  if (one.dim) how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, *one.dim);
  how.finalize("an element-wise op");
  CudnnDescriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, one.x->descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, one.y->descriptor);
  if (one.b) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, one.b->descriptor);
  if (one.mask) op.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, one.mask->descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1.0f);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1.0f);
  op.finalize("an element-wise op");
  operations_.push_back(op);
}

void CudnnGraph::unary(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y) {
  pointwise({mode, &x, nullptr, nullptr, &y});
}
void CudnnGraph::binary(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b, const Tensor& y) {
  pointwise(
      {mode, &x, &b, nullptr, &y, y.type == CUDNN_DATA_BOOLEAN ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT});
}
void CudnnGraph::index(int64_t dim, const Tensor& like, const Tensor& y) {
  pointwise({CUDNN_POINTWISE_GEN_INDEX, &like, nullptr, nullptr, &y, CUDNN_DATA_FLOAT, dim});
}
void CudnnGraph::select(const Tensor& mask, const Tensor& x, const Tensor& otherwise, const Tensor& y) {
  pointwise({CUDNN_POINTWISE_BINARY_SELECT, &x, &otherwise, &mask, &y});
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t operation, const Tensor& x, const Tensor& y) {
  CudnnDescriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operation);
  how.finalize("a reduction");
  CudnnDescriptor op(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
  op.finalize("a reduction");
  operations_.push_back(op);
}

void CudnnGraph::reshape(const Tensor& x, const Tensor& y) {
  CudnnDescriptor op(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  op.finalize("a reshape");
  operations_.push_back(op);
}

void CudnnGraph::convolve(Of of, const Convolution& c, const Tensor& x, const Tensor& weight,
                          const Tensor& y) {
  CudnnDescriptor how(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const auto pair = [&](cudnnBackendAttributeName_t name, const std::array<int64_t, 2>& values) {
    how.set(name, CUDNN_TYPE_INT64, std::span<const int64_t>(values));
  };
  how.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
  how.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c.padding);
  pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c.padding);
  pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c.stride);
  pair(CUDNN_ATTR_CONVOLUTION_DILATIONS, c.dilation);
  how.finalize("a convolution");

  struct Names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t how, x, weight, y, alpha, beta;
  };
  static constexpr Names kNames[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
  const Names& names = kNames[static_cast<int>(of)];
  CudnnDescriptor op(names.type);
  op.set(names.how, how);
  op.set(names.x, x.descriptor);
  op.set(names.weight, weight.descriptor);
  op.set(names.y, y.descriptor);
  op.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
  op.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
  op.finalize("a convolution");
  operations_.push_back(op);
}

CudnnDescriptor CudnnGraph::finish(cudnnHandle_t handle) const {
  std::vector<cudnnBackendDescriptor_t> list;
  for (const CudnnDescriptor& operation : operations_) list.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            std::span<const cudnnBackendDescriptor_t>(list));
  if (handle) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.finalize("a graph of operations");
  return graph;
}

namespace {

// What the heuristics propose, best first; empty where they know of nothing.
std::vector<CudnnDescriptor> configurations(const CudnnDescriptor& graph) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  if (cudnn()->cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};
  int64_t count = 0;
  const auto results = [&](int64_t room, void* to) {
    return cudnn()->cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &count, to);
  };
  if (results(0, nullptr) != CUDNN_STATUS_SUCCESS) return {};
  std::vector<CudnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(found.back().get());
  }
  if (results(count, raw.data()) != CUDNN_STATUS_SUCCESS) return {};
  found.resize(static_cast<size_t>(count));
  return found;
}

bool has_note(const CudnnDescriptor& configuration, std::span<const cudnnBackendNumericalNote_t> refused) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  check_dnn(cudnn()->cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
            "an engine");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  check_dnn(cudnn()->cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                              CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), &count, notes.data()),
            "an engine's notes");
  const auto end = notes.begin() + std::min<int64_t>(count, notes.size());
  return std::find_first_of(notes.begin(), end, refused.begin(), refused.end()) != end;
}

}  // namespace

std::optional<CudnnPlan> CudnnPlan::of(const CudnnGraph& graph, cudnnHandle_t handle, size_t most_workspace,
                                       CudnnFactors factors) {
  // Transforms and halved sums cost digits that no op of this project gives up.
  constexpr cudnnBackendNumericalNote_t kRefused[] = {
      CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
      CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD};
  constexpr cudnnBackendNumericalNote_t kRounds[] = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                                                     CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
  const CudnnDescriptor finished = graph.finish(handle);
  for (const CudnnDescriptor& configuration : configurations(finished)) {
    if (has_note(configuration, kRefused)) continue;
    if (factors == CudnnFactors::kAsTheyAre && has_note(configuration, kRounds)) continue;
    CudnnPlan result;
    result.plan_ = CudnnDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    result.plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    result.plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (cudnn()->cudnnBackendFinalize(result.plan_.get()) != CUDNN_STATUS_SUCCESS) continue;
    int64_t bytes = 0, count = 0;
    check_dnn(cudnn()->cudnnBackendGetAttribute(result.plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                CUDNN_TYPE_INT64, 1, &count, &bytes),
              "a plan's workspace");
    if (static_cast<size_t>(bytes) <= most_workspace) return result;
  }
  return {};
}

void CudnnPlan::run(cudnnHandle_t handle, std::span<const Binding> bindings, std::byte* workspace) const {
  constexpr size_t kMost = 16;
  TRIREME_CHECK(bindings.size() <= kMost);
  std::array<int64_t, kMost> ids;
  std::array<const void*, kMost> addresses;
  for (size_t i = 0; i < bindings.size(); ++i) {
    ids[i] = bindings[i].id;
    addresses[i] = bindings[i].address;
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
           std::span<const int64_t>(ids.data(), bindings.size()));
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::span<const void* const>(addresses.data(), bindings.size()));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize("addresses");
  check_dnn(cudnn()->cudnnBackendExecute(handle, plan_.get(), pack.get()), "running a plan");
}

}  // namespace trireme::cuda

// Row-major products for a library that is column-major: c = a·b is cᵀ = bᵀ·aᵀ, so a and b change places and
// nothing is moved. How cuBLASLt is to compute a product is asked once per shape and kept. Shapes that it
// does not take (an empty k, rows of odd length in 16 bits) go to a plain kernel.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/kernels/cuda/cublas_lt.h"
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/formulas.cuh"
#include "trireme/kernels/cuda/gemm.h"
#include "trireme/kernels/cuda/products.h"

namespace trireme::cuda {
namespace {

constexpr size_t kLeastWorkspace = size_t{1} << 20, kMostWorkspace = size_t{32} << 20;
constexpr size_t kAlignment = 256;

void check_lt(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(fmt::format("{}: {}", what, cublas_lt().cublasLtGetStatusName(status)));
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::f32 ? CUDA_R_32F : dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_16F;
}

// As the library sees it: the stored rows are its columns.
cublasLtMatrixLayout_t layout(DType dtype, int64_t stored_rows, int64_t stored_columns, int64_t stride,
                              int64_t batch, int64_t batch_stride) {
  const CublasLt& lt = cublas_lt();
  cublasLtMatrixLayout_t result;
  check_lt(lt.cublasLtMatrixLayoutCreate(&result, type_of(dtype), stored_columns, stored_rows, stride),
           "a matrix layout");
  const int32_t count = static_cast<int32_t>(batch);
  check_lt(
      lt.cublasLtMatrixLayoutSetAttribute(result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
      "a batch count");
  check_lt(lt.cublasLtMatrixLayoutSetAttribute(result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                               &batch_stride, sizeof batch_stride),
           "a batch stride");
  return result;
}

// All that the choice of an algorithm depends on, pointers reduced to their alignment.
using Key = ProductKey;

constexpr size_t kFormats = 12;     // where a key has them
constexpr int64_t kOfTf32 = 0x100;  // beside them

int64_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return pointer ? std::min<int64_t>(256, static_cast<int64_t>(address & (~address + 1))) : 0;
}

Key key_of(const Gemm& g) {
  return {g.m,
          g.n,
          g.k,
          g.batch,
          g.a.stride,
          g.a.batch_stride,
          g.a.transpose == Transpose::kYes,
          g.b.stride,
          g.b.batch_stride,
          g.b.transpose == Transpose::kYes,
          g.c_stride,
          g.c_batch_stride,
          static_cast<int64_t>(g.dtype) * 16 + static_cast<int64_t>(g.c_dtype),
          (g.bias ? 1 : 0) + (g.residual ? 2 : 0) + (g.pre ? 4 : 0) + (g.gelu_at ? 8 : 0),
          alignment_of(g.a.data),
          alignment_of(g.b.data),
          alignment_of(g.c),
          alignment_of(g.residual) * 1024 + alignment_of(g.pre),
          alignment_of(g.gelu_at)};
}

std::byte* aligned(std::byte* memory) {
  return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory) + kAlignment - 1) / kAlignment *
                                      kAlignment);
}

size_t library_workspace(const Gemm& g) {
  const size_t results = static_cast<size_t>(g.m * g.n * g.batch) * sizeof(float);
  // Long sums of few results are cut in parts, each with results of its own.
  return std::clamp(64 * results, kLeastWorkspace, kMostWorkspace);
}

// The product of one element at a time, for shapes that the library does not take.
template <typename T, typename C>
__global__ void plain_product(Gemm g) {
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= g.batch * g.m * g.n) return;
  const int64_t column = index % g.n, row = index / g.n % g.m, batch = index / (g.n * g.m);
  const T* a = static_cast<const T*>(g.a.data) + batch * g.a.batch_stride;
  const T* b = static_cast<const T*>(g.b.data) + batch * g.b.batch_stride;
  const bool ta = g.a.transpose == Transpose::kYes, tb = g.b.transpose == Transpose::kYes;
  float sum = 0;
  for (int64_t k = 0; k < g.k; ++k) {
    const T left = ta ? a[k * g.a.stride + row] : a[row * g.a.stride + k];
    const T right = tb ? b[column * g.b.stride + k] : b[k * g.b.stride + column];
    sum = fmaf(widen(left), widen(right), sum);
  }
  const int64_t at = batch * g.c_batch_stride + row * g.c_stride + column;
  if (g.bias) sum += widen(static_cast<const C*>(g.bias)[column]);
  if (g.residual) sum += widen(static_cast<const C*>(g.residual)[at]);
  if (g.pre) {
    static_cast<C*>(g.pre)[at] = narrow<C>(sum);
    sum = formula::gelu(sum);
  }
  if (g.gelu_at) sum = formula::gelu_grad(sum, widen(static_cast<const C*>(g.gelu_at)[at]));
  static_cast<C*>(g.c)[at] = narrow<C>(sum);
}

void multiply_plainly(const Gemm& g, cudaStream_t stream) {
  constexpr int kThreads = 128;
  const unsigned grid = blocks(ceil_div(g.batch * g.m * g.n, kThreads));
  with_format(g.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (g.c_dtype == g.dtype)
      plain_product<T, T><<<grid, kThreads, 0, stream>>>(g);
    else
      plain_product<T, float><<<grid, kThreads, 0, stream>>>(g);
  });
}

template <typename T>
__global__ void gelu_of(const T* pre, T* y, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = narrow<T>(formula::gelu(widen(pre[i])));
}
template <typename T>
__global__ void gelu_grad_of(const T* x, T* y, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = narrow<T>(formula::gelu_grad(widen(y[i]), widen(x[i])));
}

}  // namespace

// A product as the library knows it.
struct Products::Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  struct Proposal {  // nvcc does not take a list of the library's type, which has no name of its own
    cublasLtMatmulAlgo_t algorithm;
  };
  std::vector<Proposal> proposed;                 // by the library, the best first as far as it knows
  std::optional<cublasLtMatmulAlgo_t> algorithm;  // none: the library does not take it

  Plan(cublasLtHandle_t handle, const Gemm& g, cublasComputeType_t compute);
  // Takes it if the library does, for this product here.
  bool take(cublasLtHandle_t handle, const Gemm& g, const ProductAlgorithm& words);
  cublasStatus_t run(cublasLtHandle_t handle, const Gemm& g, const cublasLtMatmulAlgo_t& with,
                     cudaStream_t stream, std::byte* workspace) const;
  // The fastest of those proposed.
  cublasLtMatmulAlgo_t timed(cublasLtHandle_t handle, const Gemm& g, cudaStream_t stream,
                             std::byte* workspace) const;
  ~Plan();
  Plan(const Plan&) = delete;
};

struct Products::Cache {
  cublasLtHandle_t handle = nullptr;
  std::map<Key, Plan> plans;
};

Products::Plan::Plan(cublasLtHandle_t handle, const Gemm& g, cublasComputeType_t compute) {
  const CublasLt& lt = cublas_lt();
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check_lt(lt.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
             "a product's attribute");
  };
  check_lt(lt.cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), "a product");
  const auto transposed = [](const Gemm::Operand& operand) {
    return operand.transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposed(g.b));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposed(g.a));
  const cublasLtEpilogue_t epilogue = g.pre       ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                      : g.gelu_at ? CUBLASLT_EPILOGUE_DGELU
                                      : g.bias    ? CUBLASLT_EPILOGUE_BIAS
                                                  : CUBLASLT_EPILOGUE_DEFAULT;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (g.bias) {
    const int32_t type = type_of(g.c_dtype);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
  }
  if (const void* const beside = g.pre ? g.pre : g.gelu_at) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, beside);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.c_stride);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, g.c_batch_stride);
  }
  const bool ta = g.a.transpose == Transpose::kYes, tb = g.b.transpose == Transpose::kYes;
  a = layout(g.dtype, ta ? g.k : g.m, ta ? g.m : g.k, g.a.stride, g.batch, g.a.batch_stride);
  b = layout(g.dtype, tb ? g.n : g.k, tb ? g.k : g.n, g.b.stride, g.batch, g.b.batch_stride);
  c = layout(g.c_dtype, g.m, g.n, g.c_stride, g.batch, g.c_batch_stride);

  cublasLtMatmulPreference_t preference;
  check_lt(lt.cublasLtMatmulPreferenceCreate(&preference), "a preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_lt(lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
             "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, library_workspace(g));
  // Parts of a sum are added in f32 and in order, never in the format of the result.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const void* const c_like[] = {g.c, g.residual, g.pre, g.gelu_at};
  uint32_t c_alignment = 256;
  for (const void* pointer : c_like) {
    if (pointer) c_alignment = std::min(c_alignment, static_cast<uint32_t>(alignment_of(pointer)));
  }
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(alignment_of(g.b.data)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(alignment_of(g.a.data)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c_alignment);
  constexpr int kMost = 16;
  cublasLtMatmulHeuristicResult_t found[kMost] = {};
  int count = 0;
  const cublasStatus_t status =
      lt.cublasLtMatmulAlgoGetHeuristic(handle, operation, b, a, c, c, preference, kMost, found, &count);
  lt.cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS) return;
  for (int i = 0; i < count; ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS) proposed.push_back({found[i].algo});
  }
  if (!proposed.empty()) algorithm = proposed.front().algorithm;
}

bool Products::Plan::take(cublasLtHandle_t handle, const Gemm& g, const ProductAlgorithm& words) {
  static_assert(sizeof(cublasLtMatmulAlgo_t::data) == sizeof(ProductAlgorithm));
  cublasLtMatmulAlgo_t wanted{};
  std::memcpy(wanted.data, words.data(), sizeof wanted.data);
  cublasLtMatmulHeuristicResult_t needs{};
  const cublasStatus_t status =
      cublas_lt().cublasLtMatmulAlgoCheck(handle, operation, b, a, c, c, &wanted, &needs);
  if (status != CUBLAS_STATUS_SUCCESS || needs.workspaceSize > library_workspace(g)) return false;
  algorithm = wanted;
  return true;
}

cublasStatus_t Products::Plan::run(cublasLtHandle_t handle, const Gemm& g, const cublasLtMatmulAlgo_t& with,
                                   cudaStream_t stream, std::byte* workspace) const {
  const float one = 1, beta = g.residual ? 1 : 0;
  return cublas_lt().cublasLtMatmul(handle, operation, &one, g.b.data, b, g.a.data, a, &beta,
                                    g.residual ? g.residual : g.c, c, g.c, c, &with, aligned(workspace),
                                    library_workspace(g), stream);
}

// In turns, so that all are timed on a card that is as warm; the least of the turns counts.
cublasLtMatmulAlgo_t Products::Plan::timed(cublasLtHandle_t handle, const Gemm& g, cudaStream_t stream,
                                           std::byte* workspace) const {
  constexpr int kTurns = 12;
  constexpr double kTurnFlops = 4e12;  // a few milliseconds of a large GPU
  const double flops = 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
                       static_cast<double>(g.batch);
  const int repeats = std::clamp(static_cast<int>(kTurnFlops / flops), 2, 50);
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "an event");
  check(cudaEventCreate(&end), "an event");
  std::vector<float> best(proposed.size(), INFINITY);
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t i = 0; i < proposed.size(); ++i) {
      bool works = true;
      check(cudaEventRecord(begin, stream), "an event");
      for (int r = 0; r < repeats && works; ++r)
        works = run(handle, g, proposed[i].algorithm, stream, workspace) == CUBLAS_STATUS_SUCCESS;
      check(cudaEventRecord(end, stream), "an event");
      check(cudaEventSynchronize(end), "timing a product");
      float milliseconds = INFINITY;
      if (works) check(cudaEventElapsedTime(&milliseconds, begin, end), "timing a product");
      if (turn > 0) best[i] = std::min(best[i], milliseconds);
    }
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return proposed[static_cast<size_t>(std::ranges::min_element(best) - best.begin())].algorithm;
}

Products::Plan::~Plan() {
  const CublasLt& lt = cublas_lt();
  for (cublasLtMatrixLayout_t one : {a, b, c}) {
    if (one) lt.cublasLtMatrixLayoutDestroy(one);
  }
  if (operation) lt.cublasLtMatmulDescDestroy(operation);
}

Products::Products(ProductChoices& choices, F32Products f32)
    : choices_(choices), f32_(f32), cache_(std::make_unique<Cache>()) {}

Products::~Products() {
  cache_->plans.clear();
  if (cache_->handle) cublas_lt().cublasLtDestroy(cache_->handle);
}

namespace {

// Products so small that launching is what takes the time are left to the library; so are those that are
// added to their own result, which timing would do again and again.
bool is_worth_timing(const Gemm& g) {
  constexpr double kLeastFlops = 2e9;
  return 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
                 static_cast<double>(g.batch) >=
             kLeastFlops &&
         g.residual != g.c;
}

}  // namespace

Products::Plan& Products::plan_for(const Gemm& g, cudaStream_t stream, std::byte* workspace) {
  const bool tf32 = g.dtype == DType::f32 && !g.exact && f32_ == F32Products::kTf32;
  Key key = key_of(g);
  if (tf32) key[kFormats] += kOfTf32;
  if (const auto found = cache_->plans.find(key); found != cache_->plans.end()) return found->second;
  Plan& plan =
      cache_->plans
          .try_emplace(key, cache_->handle, g, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F)
          .first->second;
  if (const ProductAlgorithm* chosen = choices_.find(key); chosen && plan.take(cache_->handle, g, *chosen))
    return plan;
  if (choices_.missing() == ProductChoices::Missing::kTime && plan.proposed.size() > 1 &&
      is_worth_timing(g)) {
    plan.algorithm = plan.timed(cache_->handle, g, stream, workspace);
    ProductAlgorithm words;
    std::memcpy(words.data(), plan.algorithm->data, sizeof words);
    choices_.add(key, words);
  }
  return plan;
}

bool Products::multiply(const Gemm& g, cudaStream_t stream, std::byte* workspace) {
  const CublasLt& lt = cublas_lt();
  if (!cache_->handle) check_lt(lt.cublasLtCreate(&cache_->handle), "cuBLASLt");
  Plan& plan = plan_for(g, stream, workspace);
  if (!plan.algorithm) return false;
  const auto point = [&](cublasLtMatmulDescAttributes_t attribute, const void* pointer) {
    check_lt(lt.cublasLtMatmulDescSetAttribute(plan.operation, attribute, &pointer, sizeof pointer),
             "a pointer");
  };
  if (g.bias) point(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
  if (g.pre || g.gelu_at) point(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.pre ? g.pre : g.gelu_at);
  check_lt(plan.run(cache_->handle, g, *plan.algorithm, stream, workspace), "a product of cuBLASLt");
  return true;
}

size_t gemm_workspace_bytes(const Gemm& gemm) {
  return library_workspace(gemm) + kAlignment;
}

void multiply(const Gemm& gemm, CudaContext& context, std::byte* workspace) {
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch == 0) return;
  Products& products = *context.products;
  if (gemm.k == 0) return multiply_plainly(gemm, context.stream);
  // The library's GELU is for 16 bits, and rows of whole packs.
  const bool gelu = gemm.pre || gemm.gelu_at;
  const bool gelu_apart = gelu && (gemm.c_dtype == DType::f32 || gemm.c_stride % 8 != 0);
  if (!gelu_apart && products.multiply(gemm, context.stream, workspace)) return;
  Gemm now = gemm;
  if (gemm.pre) now.c = gemm.pre;
  now.pre = nullptr;
  now.gelu_at = nullptr;
  if (!gelu || !products.multiply(now, context.stream, workspace))
    return multiply_plainly(gemm, context.stream);
  TRIREME_CHECK(gemm.c_stride == gemm.n);
  TRIREME_CHECK((gemm.batch == 1 || gemm.c_batch_stride == gemm.m * gemm.n));
  constexpr int kThreads = 256;
  const int64_t count = gemm.batch * gemm.m * gemm.n;
  const unsigned grid = blocks(ceil_div(count, kThreads));
  with_format(gemm.c_dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const c = static_cast<T*>(gemm.c);
    if (gemm.pre)
      gelu_of<T><<<grid, kThreads, 0, context.stream>>>(static_cast<const T*>(gemm.pre), c, count);
    else
      gelu_grad_of<T><<<grid, kThreads, 0, context.stream>>>(static_cast<const T*>(gemm.gelu_at), c, count);
  });
}

}  // namespace trireme::cuda

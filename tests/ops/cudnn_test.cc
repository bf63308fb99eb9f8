// cuDNN takes the graphs of operations that are built for it. No GPU is needed: a graph finishes without a
// handle. Where cuDNN is not installed this is skipped.
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/kernels/cuda/cudnn_attention_graph.h"
#include "trireme/kernels/cuda/cudnn_library.h"

namespace trireme::cuda {
namespace {

#define TRIREME_NEEDS_CUDNN() \
  if (!cudnn()) GTEST_SKIP() << "cuDNN is not installed here"

AttentionGraph attention(bool causal, DType dtype, int64_t kv_heads = 6) {
  return {.batch = 2,
          .heads = 6,
          .kv_heads = kv_heads,
          .queries = 40,
          .keys = 40,
          .width = 16,
          .causal = causal,
          .dtype = dtype};
}

TEST(Cudnn, TheGraphOfAttentionIsTaken) {
  TRIREME_NEEDS_CUDNN();
  for (DType dtype : {DType::bf16, DType::f16}) {
    const CudnnGraph causal = attention(true, dtype).forward();
    EXPECT_EQ(causal.operations(), 14u);
    EXPECT_NO_THROW(causal.finish(nullptr));
    EXPECT_NO_THROW(attention(false, dtype).forward().finish(nullptr));
  }
}

TEST(Cudnn, TheGraphOfItsGradientIsTheOneThatAddsInOrder) {
  TRIREME_NEEDS_CUDNN();
  for (DType dtype : {DType::bf16, DType::f16}) {
    const CudnnGraph causal = attention(true, dtype).backward();
    EXPECT_EQ(causal.operations(), 21u);
    EXPECT_NO_THROW(causal.finish(nullptr));
    EXPECT_NO_THROW(attention(false, dtype).backward().finish(nullptr));
  }
}

TEST(Cudnn, GradientsOfSharedKeysAreAddedUpInTheGraph) {
  TRIREME_NEEDS_CUDNN();
  EXPECT_NO_THROW(attention(true, DType::bf16, 2).forward().finish(nullptr));
  const CudnnGraph gradient = attention(true, DType::bf16, 2).backward();
  EXPECT_EQ(gradient.operations(), 23u);
  EXPECT_NO_THROW(gradient.finish(nullptr));
}

TEST(Cudnn, AGraphWithADimThatDoesNotFitIsRefused) {
  TRIREME_NEEDS_CUDNN();
  CudnnGraph g;
  const auto a = g.real(1, CUDNN_DATA_BFLOAT16, {1, 1, 8, 16}, {128, 128, 16, 1}),
             b = g.real(2, CUDNN_DATA_BFLOAT16, {1, 1, 24, 8}, {192, 192, 8, 1}),
             c = g.real(3, CUDNN_DATA_FLOAT, {1, 1, 8, 8}, {64, 64, 8, 1});
  EXPECT_THROW(g.matmul(a, b, c), Error);
}

}  // namespace
}  // namespace trireme::cuda

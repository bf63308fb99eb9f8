// The products that a context has asked cuBLASLt about; see gemm.cu.
#pragma once

#include <memory>

#include "trireme/kernels/cuda/gemm.h"
#include "trireme/kernels/product_choices.h"

namespace trireme::cuda {

class Products {
 public:
  Products(ProductChoices& choices, F32Products f32);  // choices outlive it
  ~Products();
  Products(const Products&) = delete;

  F32Products f32() const { return f32_; }
  // False when the library does not take such a product; nothing is done then.
  bool multiply(const Gemm& gemm, cudaStream_t stream, std::byte* workspace);

 private:
  struct Plan;
  struct Cache;
  Plan& plan_for(const Gemm& gemm, cudaStream_t stream, std::byte* workspace);

  ProductChoices& choices_;
  F32Products f32_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace trireme::cuda

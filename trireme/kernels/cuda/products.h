// The products that a context has asked cuBLASLt about; see gemm.cu.
#pragma once

#include <memory>

#include "trireme/kernels/cuda/gemm.h"

namespace trireme::cuda {

class Products {
 public:
  Products();
  ~Products();
  Products(const Products&) = delete;

  // False when the library does not take such a product; nothing is done then.
  bool multiply(const Gemm& gemm, cudaStream_t stream, std::byte* workspace);

 private:
  struct Plan;
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

}  // namespace trireme::cuda

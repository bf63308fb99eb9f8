// Kernels of maps (ir/map_code.h): their CUDA C++ as text, and those that a context has compiled of it.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/ir/map_code.h"

namespace trireme::cuda {

// What a kernel is built for. Inputs repeat after so many elements; 0: they have as many as the results.
struct MapForm {
  MapCode code;
  DType dtype;
  std::vector<int64_t> periods;
};

inline constexpr int kMapCodeThreads = 256, kMapPackBytes = 16;
inline constexpr const char* kMapKernel = "map";

// Whether there is a formula for every instruction.
bool has_formulas(const MapCode& code);
// A kernel map(x0, …, y0, …, int64 count): a thread takes a pack of 16 bytes of each tensor.
std::string map_source(const MapForm& form);

class MapKernels {
 public:
  cudaKernel_t find(const MapForm& form);  // compiles what it has not yet

 private:
  std::map<std::string, cudaKernel_t> kernels_;  // by their source
};

// NVIDIA's run-time compiler, loaded when it is first needed (nvrtc.cu).
bool has_nvrtc();

// The one kernel of a program of CUDA C++, `extern "C"` and named `name`, built for the GPU of this thread.
// It stays loaded until the process ends. Throws a DeviceError with the compiler's words.
cudaKernel_t compiled_kernel(const std::string& source, const char* name);

}  // namespace trireme::cuda

// NVIDIA's run-time compiler, loaded when it is first needed.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace trireme::cuda {

bool has_nvrtc();

// The one kernel of a program of CUDA C++, `extern "C"` and named `name`, built for the GPU of this thread.
// It stays loaded until the process ends. Throws a DeviceError with the compiler's words.
cudaKernel_t compiled_kernel(const std::string& source, const char* name);

}  // namespace trireme::cuda

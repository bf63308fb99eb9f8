// NVIDIA's run-time compiler; see map_kernels.h.
#include <dlfcn.h>
#include <nvrtc.h>

#include <optional>
#include <vector>

#include "trireme/kernels/cuda/context.h"
#include "trireme/kernels/cuda/map_kernels.h"

namespace trireme::cuda {
namespace {

#define TRIREME_NVRTC_CALLS(X) \
  X(nvrtcCreateProgram)        \
  X(nvrtcCompileProgram)       \
  X(nvrtcDestroyProgram)       \
  X(nvrtcGetCUBIN)             \
  X(nvrtcGetCUBINSize)         \
  X(nvrtcGetErrorString)       \
  X(nvrtcGetProgramLog)        \
  X(nvrtcGetProgramLogSize)

struct Nvrtc {
#define TRIREME_DECLARE(name) decltype(&::name) name;
  TRIREME_NVRTC_CALLS(TRIREME_DECLARE)
#undef TRIREME_DECLARE
};

std::optional<Nvrtc> load() {
  void* const library = open_library("libnvrtc.so." + std::to_string(CUDART_VERSION / 1000));
  if (!library) return {};
  Nvrtc calls;
#define TRIREME_LOAD(name)                                                    \
  calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(library, #name)); \
  if (!calls.name) return {};
  TRIREME_NVRTC_CALLS(TRIREME_LOAD)
#undef TRIREME_LOAD
  return calls;
}

const std::optional<Nvrtc>& nvrtc() {
  static const std::optional<Nvrtc> calls = load();
  return calls;
}

class RuntimeProgram {
 public:
  explicit RuntimeProgram(const std::string& source) {
    check_rtc(nvrtc()->nvrtcCreateProgram(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr));
  }
  ~RuntimeProgram() { nvrtc()->nvrtcDestroyProgram(&program_); }
  RuntimeProgram(const RuntimeProgram&) = delete;

  std::vector<char> compile(const std::string& architecture) {
    // Without contraction, the result of an instruction is what its op alone would store.
    const char* const options[] = {architecture.c_str(), "--std=c++17", "--fmad=false"};
    const nvrtcResult result =
        nvrtc()->nvrtcCompileProgram(program_, static_cast<int>(std::size(options)), options);
    if (result != NVRTC_SUCCESS) {
      size_t size = 0;
      nvrtc()->nvrtcGetProgramLogSize(program_, &size);
      std::string log(size, '\0');
      nvrtc()->nvrtcGetProgramLog(program_, log.data());
      throw DeviceError(
          fmt::format("compiling a kernel: {}\n{}", nvrtc()->nvrtcGetErrorString(result), log.c_str()));
    }
    size_t size = 0;
    check_rtc(nvrtc()->nvrtcGetCUBINSize(program_, &size));
    std::vector<char> code(size);
    check_rtc(nvrtc()->nvrtcGetCUBIN(program_, code.data()));
    return code;
  }

 private:
  static void check_rtc(nvrtcResult result) {
    if (result != NVRTC_SUCCESS)
      throw DeviceError(fmt::format("compiling a kernel: {}", nvrtc()->nvrtcGetErrorString(result)));
  }
  nvrtcProgram program_ = nullptr;
};

std::string architecture_here() {
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device), "the GPU of this thread");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "a GPU's capability");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "a GPU's capability");
  return fmt::format("--gpu-architecture=sm_{}{}", major, minor);
}

}  // namespace

bool has_nvrtc() {
  return nvrtc().has_value();
}

cudaKernel_t compiled_kernel(const std::string& source, const char* name) {
  TRIREME_CHECK(has_nvrtc());
  const std::vector<char> code = RuntimeProgram(source).compile(architecture_here());
  cudaLibrary_t library = nullptr;
  check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading a kernel");
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryGetKernel(&kernel, library, name), "loading a kernel");
  return kernel;
}

}  // namespace trireme::cuda

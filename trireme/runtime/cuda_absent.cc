// Takes the place of cuda_device.cc where no CUDA toolkit was found when the build was configured.
#include "trireme/base/error.h"
#include "trireme/runtime/device.h"

namespace trireme {

int cuda_device_count() {
  return 0;
}

std::unique_ptr<Device> make_cuda_device(int, const ProductFile&, F32Products, comm::DeviceLinks) {
  throw_error(
      "this build has no CUDA: no nvcc was found when it was configured. Install NVIDIA's CUDA toolkit and "
      "configure again, or compute with train.device=cpu");
}

std::unique_ptr<Device> make_cuda_debug_device(int index, const ProductFile& products,
                                               F32Products f32_products, comm::DeviceLinks links) {
  return make_cuda_device(index, products, f32_products, links);
}

}  // namespace trireme

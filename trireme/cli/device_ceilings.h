// What a device can do at most, measured through its own kernels: a large product of matrices, a large copy.
#pragma once

#include "trireme/runtime/device.h"

namespace trireme::cli {

double measure_product_flops_per_second(Device& device, DType dtype);
double measure_copy_bytes_per_second(Device& device);  // bytes read and bytes written

}  // namespace trireme::cli

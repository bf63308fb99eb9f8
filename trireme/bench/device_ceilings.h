// What a device can do at most, measured through its own kernels: a large product of matrices, a large copy.
#pragma once

#include "trireme/runtime/device.h"

namespace trireme::bench {

// Of a product of [m, k] by [k, n], alone, as the executor runs it.
double measure_product_seconds(Device& device, DType dtype, int64_t m, int64_t n, int64_t k);
double measure_product_flops_per_second(Device& device, DType dtype);  // of a large one
double measure_copy_bytes_per_second(Device& device);                  // bytes read and bytes written

}  // namespace trireme::bench

// What a device can do at most, measured through its own kernels: a large product of matrices, a large copy.
#pragma once

#include "trireme/runtime/device.h"

namespace trireme::bench {

// Of a product of [m, k] by [k, n], alone, as the executor's timer tells it.
double measure_product_seconds(Device& device, DType dtype, int64_t m, int64_t n, int64_t k);

// Of a node that has next to nothing to do.
struct LaunchTime {
  double seconds = 0;        // among others, as the executor runs them
  double timed_seconds = 0;  // as the executor's timer tells it

  // What a launch took without that, where the timer told so many seconds; at least a tenth, since launches
  // differ.
  double without(double told_seconds) const;
};
LaunchTime measure_launch(Device& device);
// Of nodes in a row that read and write so many bytes together, without launches.
double measure_chain_bytes_per_second(Device& device, double bytes, const LaunchTime& launch);
double measure_product_flops_per_second(Device& device, DType dtype);  // of a large one
double measure_copy_bytes_per_second(Device& device);                  // bytes read and bytes written

}  // namespace trireme::bench

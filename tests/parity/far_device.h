// A device whose memory the host cannot touch, as a GPU's: the CPU's kernels on pages that are closed except
// while a stream works. Code that reads or writes device memory by itself dies here by a signal.
#pragma once

#include <memory>

#include "trireme/runtime/device.h"

namespace trireme::parity {

std::unique_ptr<Device> make_far_device();

}  // namespace trireme::parity

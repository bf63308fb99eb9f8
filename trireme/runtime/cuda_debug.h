// A GPU in debug order (train.device=cuda_debug): each op is waited for before the next one is launched, and
// nothing is noted down for replay, so that a fault is an Error of the op that made it. Results are those of
// the usual order, bit for bit.
#pragma once

#include <memory>

#include "trireme/runtime/device.h"

namespace trireme {

std::unique_ptr<Device> make_cuda_debug_device(int index, const ProductFile& products = {},
                                               F32Products f32_products = F32Products::kF32,
                                               comm::DeviceLinks links = comm::DeviceLinks::through_host);

}  // namespace trireme

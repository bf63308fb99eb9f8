// Runs the kernel of a case on any device: what case_runner.h does on the CPU, through the device's own
// memory and stream.
#pragma once

#include "tests/ops/case_runner.h"
#include "trireme/runtime/device.h"

namespace trireme::testing {

// As run_kernel(). Memory around each tensor and the workspace is checked for overruns.
RefTensors run_on_device(Device& device, const std::string& op, const Attrs& attrs, const RefTensors& inputs,
                         const std::vector<TensorType>& outputs, const std::vector<InPlace>& in_place = {});

}  // namespace trireme::testing

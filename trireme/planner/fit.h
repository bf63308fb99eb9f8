// What a training step needs of a device's memory under the techniques that there are for it, each taken by
// itself on so many devices: read from the Programs that would run, so it is exact, and the same for every
// class of device but for the temporary memory of kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/mesh/cluster.h"
#include "trireme/planner/subject.h"

namespace trireme::planner {

struct Need {
  std::string technique;  // "zero3, recompute full"
  sim::MemoryUse memory;  // of the rank that needs most
  std::string refused;    // why the model can not be spread so; "": it can

  // What takes most of the memory: "optimizer", "activations", …
  std::string_view largest_kind() const;
  // How much more it needs than the device has; at most 0 where it fits.
  double over_bytes(const DeviceClass& device) const;
};

// One device alone, data parallelism with each stage of sharing, a tensor axis, a pipeline, and both, with
// and without recomputation; microbatches of one row a rank. What the model can not do has a reason instead.
std::vector<Need> needs_of(const Subject& subject, int devices);

}  // namespace trireme::planner

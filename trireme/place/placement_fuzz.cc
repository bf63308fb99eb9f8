// Placement files: whatever is written in one, it is read or refused with an Error, and what was read can be
// simulated or is refused for its routes.
#include <cstdint>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/place/placement_file.h"
#include "trireme/place/queues.h"
#include "trireme/place/workflow_file.h"

namespace {

constexpr const char* kWorkflow = R"(
tiers = ["edge", "cloud"]
[[link]]
from = "edge"
to = "cloud"
[[worker]]
name = "box"
count = 3
[[worker]]
name = "gpu"
tier = "cloud"
[[source]]
name = "camera"
rate = 10
kilobytes = 1
[[op]]
name = "read"
inputs = ["camera"]
[[op.variant]]
name = "small"
milliseconds = {box = 20, gpu = 1}
accuracy = 0.8
)";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  static const place::Workflow workflow = place::parse_workflow(kWorkflow, "workflow");
  try {
    const place::Placement placement =
        place::parse_placement({reinterpret_cast<const char*>(data), size}, workflow, "fuzz");
    const place::PlacedFlow placed = place::flow_of(workflow, placement);
    place::simulate_queues({placed.flow}, static_cast<int>(placed.servers.size()), {{0, 0}, {1, 0}},
                           placed.links);
  } catch (const Error&) {
  }
  return 0;
}

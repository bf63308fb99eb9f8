// Workflow files: whatever is written in one, it is read or refused with an Error, and what was read has
// rates and an accuracy.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/place/workflow_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  place::Workflow workflow;
  try {
    workflow = place::parse_workflow({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
    return 0;
  }
  for (const double rate : place::required_rates(workflow)) {
    if (!(rate > 0)) std::abort();
  }
  if (!(place::accuracy_of(workflow, place::Variants(workflow.ops.size(), place::kAnyVariant)) >= 0))
    std::abort();
  return 0;
}

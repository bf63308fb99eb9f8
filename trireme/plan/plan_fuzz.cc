// Plans from bytes of any kind: refused with an Error, or read; what was read can be asked what the rest asks
// a plan, and written as JSON reads back as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  Plan plan;
  try {
    plan = parse_plan({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
    return 0;
  }
  // Outside the try: a refusal from here on is a finding.
  const std::string json = to_json(plan);
  if (to_json(parse_plan(json, "again")) != json) std::abort();
  const Plan stage = plan.of_one_stage();
  const int last = plan.mesh.ranks() - 1;
  const Servers* servers = plan.agreement.servers();
  if ((!servers || !servers->serves(last)) && plan.rank_in_stage(last) >= stage.mesh.ranks()) std::abort();
  for (const Axis& axis : plan.mesh.axes()) plan.preset_over(axis.name);
  plan.layout_of("h.0.weight");
  return 0;
}

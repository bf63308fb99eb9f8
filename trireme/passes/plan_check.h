// Whether a plan can work for a model, so that what can not is refused when the plan is read, with the
// reason.
#pragma once

#include <vector>

#include "trireme/plan/plan.h"
#include "trireme/schedule/step_segment.h"

namespace trireme {

// `whole`: the segments of a step on whole tensors. Throws Error when a preset has nothing to split in this
// model or would leave most of it whole, when a layout names what the model does not have or does not fit it,
// and when there are too many ranks for heads, features or rows.
void check_plan(const Plan& plan, const std::vector<StepSegment>& whole);

}  // namespace trireme

// A model and its settings as the planner sees them (planner/subject.h).
#pragma once

#include "trireme/planner/subject.h"
#include "trireme/run/config.h"
#include "trireme/train/step.h"

namespace trireme {

// `config` has vocabulary and classes set; what it says of train.accumulate is for the planner to decide.
// Throws Error for settings that plans are not searched for.
planner::Subject plan_subject(const Config& config, const Shape& sample);
// The same of a model that need not be in the table of families; `config.model` is not read.
planner::Subject plan_subject(const Model& model, const Config& config, const Shape& sample = {});

}  // namespace trireme

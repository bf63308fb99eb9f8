// Pipeline schedules in the units of the decks: forward 1, backward 2.
#pragma once

#include <string_view>

#include "trireme/schedule/pipeline.h"
#include "trireme/schedule/timeline.h"

namespace trireme::reproduce {

Timeline timeline_of(std::string_view schedule, const PipelineShape& shape);
// Microbatches of a stage's work that the stage with most keeps at a time.
double most_kept(std::string_view schedule, const PipelineShape& shape);
// Between stages, in a step.
double messages_of(std::string_view schedule, const PipelineShape& shape);

}  // namespace trireme::reproduce

// The table of pipeline schedules: by the name that plans use, what each needs of its shape, and its
// function.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trireme/plan/plan.h"
#include "trireme/schedule/pipeline.h"

namespace trireme {

// What a schedule needs of its shape.
struct PipelineNeeds {
  int least_chunks = 1, most_chunks = 1;  // a stage; least_chunks where the shape does not say
  enum class Stages { kAny, kEven } stages = Stages::kAny;
  enum class Microbatches { kAny, kMultipleOfStages, kNoFewerThanStages } microbatches = Microbatches::kAny;
  enum class Versions { kNewest, kAny } versions = Versions::kNewest;
};

struct PipelineSchedule {
  std::string_view name;     // in plans
  std::string_view summary;  // one line
  Pipeline (*make)(const PipelineShape& shape) = nullptr;
  enum class Updates { kAfterStep, kBetweenTurns } updates = Updates::kAfterStep;
  PipelineNeeds needs = {};
  // Whether gradients of weights have turns of their own (Phase::kWeight).
  enum class Weights { kWithInputs, kApart } weights = Weights::kWithInputs;
  // A schedule that is never slower and never keeps more, for searches of the best one; "": there is none.
  std::string_view instead = "";
};

std::span<const PipelineSchedule> pipeline_schedules();
// Throws Error with the nearest name where there is none.
const PipelineSchedule& find_schedule(std::string_view name);

// Why the schedule is not defined for this shape, as a sentence; "" where it is.
std::string refusal(const PipelineSchedule& schedule, const PipelineShape& shape);
// Throws Error with the refusal.
Pipeline make_pipeline(const PipelineSchedule& schedule, PipelineShape shape);
// What a plan with an axis pipe asks for, 1f1b where it does not say. Throws Error also for what can be drawn
// and timed, but not be run yet.
Pipeline pipeline_of(const Plan& plan, int64_t microbatches);

}  // namespace trireme

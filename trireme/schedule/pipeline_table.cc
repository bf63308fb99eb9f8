// See pipeline_table.h.
#include "trireme/schedule/pipeline_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/plan/schedule_names.h"
#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {
namespace {

using Needs = PipelineNeeds;
using enum PipelineSchedule::Updates;
constexpr auto kApart = PipelineSchedule::Weights::kApart;
constexpr int kAnyNumber = 1 << 20;

constexpr PipelineSchedule kSchedules[] = {
    {.name = "gpipe", .summary = "all forwards, then all backwards", .make = gpipe, .instead = "1f1b"},
    {"1f1b", "a forward for every backward; no more stashes than stages", one_forward_one_backward},
    {"interleaved",
     "1f1b over several chunks a stage: a smaller bubble, more messages",
     interleaved,
     kAfterStep,
     {.least_chunks = 2, .most_chunks = kAnyNumber, .microbatches = Needs::Microbatches::kMultipleOfStages}},
    {"chimera",
     "two pipelines in opposite directions; weights twice",
     chimera,
     kAfterStep,
     {.stages = Needs::Stages::kEven}},
    {.name = "zb_h1",
     .summary = "1f1b with weight gradients apart, which fill the bubble at the end",
     .make = zb_h1,
     .weights = kApart},
    {.name = "zb_h2",
     .summary = "and more forwards at the beginning: no bubble for equal times, twice the stashes",
     .make = zb_h2,
     .weights = kApart},
    {"zb_v",
     "two chunks a stage laid out as a V: no bubble for equal times, 1f1b's memory",
     zb_v,
     kAfterStep,
     {.least_chunks = 2, .most_chunks = 2},
     kApart},
    {"pipedream",
     "asynchronous: an update after every microbatch, weights stashed",
     pipedream,
     kBetweenTurns,
     {.versions = Needs::Versions::kAny}},
    {"2bw",
     "asynchronous: an update a step, two versions of weights",
     two_buffered_weights,
     kBetweenTurns,
     {.microbatches = Needs::Microbatches::kNoFewerThanStages}},
};

static_assert(std::ranges::equal(kSchedules, kScheduleNames, {}, &PipelineSchedule::name),
              "plans can name other schedules than there are");

int chunks_per_stage(const PipelineSchedule& schedule, const PipelineShape& shape) {
  return shape.chunks_per_stage == 0 ? schedule.needs.least_chunks : shape.chunks_per_stage;
}

std::string refused_chunks(const PipelineSchedule& schedule, int chunks) {
  if (chunks >= schedule.needs.least_chunks && chunks <= schedule.needs.most_chunks) return "";
  if (schedule.needs.least_chunks == schedule.needs.most_chunks)
    return fmt::format("{} has {} chunk{} a stage, but {} are asked for", schedule.name,
                       schedule.needs.least_chunks, schedule.needs.least_chunks == 1 ? "" : "s", chunks);
  return fmt::format("{} needs {} chunks a stage or more, but {} {} asked for; with one it would be 1f1b",
                     schedule.name, schedule.needs.least_chunks, chunks, chunks == 1 ? "is" : "are");
}

}  // namespace

std::span<const PipelineSchedule> pipeline_schedules() {
  return kSchedules;
}

const PipelineSchedule& find_schedule(std::string_view name) {
  std::vector<std::string> names;
  for (const PipelineSchedule& schedule : kSchedules) {
    if (schedule.name == name) return schedule;
    names.emplace_back(schedule.name);
  }
  throw_error("there is no pipeline schedule '{}'; {}", name, suggestion(name, names));
}

std::string refusal(const PipelineSchedule& schedule, const PipelineShape& shape) {
  const auto [stages, microbatches, _, versions] = shape;
  if (stages < 1 || microbatches < 1)
    return fmt::format("a pipeline of {} stages and {} microbatches; 1 or more of both expected", stages,
                       microbatches);
  if (schedule.needs.stages == Needs::Stages::kEven && stages % 2 != 0)
    return fmt::format(
        "{} needs an even number of stages, but there are {}: its two pipelines meet in the middle",
        schedule.name, stages);
  if (schedule.needs.microbatches == Needs::Microbatches::kMultipleOfStages && microbatches % stages != 0)
    return fmt::format(
        "{} needs a number of microbatches that is a multiple of the {} stages, but there are {}: a stage "
        "takes as many of a chunk in a row as there are stages",
        schedule.name, stages, microbatches);
  if (schedule.needs.microbatches == Needs::Microbatches::kNoFewerThanStages && microbatches < stages)
    return fmt::format(
        "{} needs no fewer microbatches than the {} stages, but there are {}: more than two versions of the "
        "weights would be under way",
        schedule.name, stages, microbatches);
  if (versions != PipelineShape::Versions::kNewest && schedule.needs.versions != Needs::Versions::kAny)
    return fmt::format("{} has no vertical sync; pipedream has", schedule.name);
  return refused_chunks(schedule, chunks_per_stage(schedule, shape));
}

Pipeline make_pipeline(const PipelineSchedule& schedule, PipelineShape shape) {
  if (const std::string reason = refusal(schedule, shape); !reason.empty()) throw Error(reason);
  shape.chunks_per_stage = chunks_per_stage(schedule, shape);
  return schedule.make(shape);
}

Pipeline pipeline_of(const Plan& plan, int64_t microbatches) {
  const PipelineSchedule& schedule = find_schedule(plan.schedule.value_or("1f1b"));
  using Versions = PipelineShape::Versions;
  Pipeline pipeline = make_pipeline(
      schedule,
      {.stages = plan.pipeline_stages(),
       .microbatches = microbatches,
       .chunks_per_stage = plan.chunks.value_or(0),
       .versions = plan.vertical_sync.value_or(false) ? Versions::kVerticalSync : Versions::kNewest});
  const auto updates = std::ranges::count(pipeline.order[0], Phase::kUpdate, &ChunkTurn::phase);
  if (updates > 1)
    throw_error(
        "the schedule {} updates weights after every microbatch, so that a step has one, but there are {} "
        "(train.accumulate); use 1, or 2bw, which updates after all of a step",
        schedule.name, microbatches);
  size_t held = 0;
  for (const std::vector<int>& chunks : pipeline.holds) held += chunks.size();
  if (held > static_cast<size_t>(pipeline.chunks) && microbatches < 2)
    throw_error(
        "the schedule {} has two pipelines, and one microbatch (train.accumulate) is work for one; use 2 or "
        "more",
        schedule.name);
  return pipeline;
}

}  // namespace trireme

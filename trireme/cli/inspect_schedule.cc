// `trireme inspect schedule`: the timeline of a pipeline schedule for times that one gives, as text and as a
// picture; or all schedules side by side. Needs no model and no plan.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/write_file.h"
#include "trireme/schedule/draw.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/schedule/verify_pipeline.h"

namespace trireme::cli {
namespace {

struct Question {
  PipelineShape shape;
  std::vector<double> times = {1, 1, 1, 0};  // forward, backward, weight, message
  int64_t steps = 0;                         // 0: one, or several where they overlap
};

struct Answer {
  Pipeline pipeline;  // all steps of it
  PipelineProof proof;
  Timeline line;
};

Answer answer(const PipelineSchedule& schedule, const Question& question) {
  const Pipeline pipeline = make_pipeline(schedule, question.shape);
  const int64_t usual = schedule.updates == PipelineSchedule::Updates::kAfterStep ? 1 : 4;
  Answer result{unroll(pipeline, question.steps > 0 ? question.steps : usual), verify(pipeline), {}};
  const std::vector<double>& times = question.times;
  result.line = timeline(result.pipeline, {.chunks = {per_chunk({times[0], times[1], times[2]}, pipeline)},
                                           .message = times[3]});
  return result;
}

// Stashes in units of what a microbatch keeps on a whole stage, so that schedules with several chunks
// compare.
std::string stashes(const Answer& answer) {
  std::vector<std::string> texts;
  for (const int64_t live : answer.proof.live)
    texts.push_back(fmt::format("{:.3g}", static_cast<double>(live * answer.pipeline.stages()) /
                                              static_cast<double>(answer.pipeline.chunks)));
  return join(texts, " ");
}

void print_all(const Question& question) {
  fmt::print(
      "| schedule | bubble | of the work | step | stashes of each stage | versions of weights |\n"
      "|---|---|---|---|---|---|\n");
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    if (const std::string reason = refusal(schedule, question.shape); !reason.empty()) {
      fmt::print("| `{}` | {} | | | | |\n", schedule.name, reason);
      continue;
    }
    const Answer one = answer(schedule, question);
    fmt::print("| `{}` | {:.2f} % | {:.2f} % | {:.6g} | {} | {} |\n", schedule.name, 100 * one.line.bubble,
               100 * one.line.bubble_of_work(), one.line.step, stashes(one),
               fmt::join(one.proof.versions, " "));
  }
}

void print_one(const PipelineSchedule& schedule, const Question& question, int columns,
               const std::string& svg) {
  const Answer one = answer(schedule, question);
  const int64_t steps = one.pipeline.microbatches / question.shape.microbatches;
  const std::string title =
      fmt::format("{}: {} stages, {} microbatches{}", schedule.name, one.pipeline.stages(),
                  question.shape.microbatches, steps > 1 ? fmt::format(", {} steps", steps) : "");
  fmt::print("# {}\n{}# {}\n", title, draw_text(one.pipeline, one.line, columns), caption(one.line));
  fmt::print("# stashes of each stage: {}; versions of weights: {}\n", stashes(one),
             fmt::join(one.proof.versions, " "));
  if (svg.empty()) return;
  write_file(svg, draw_svg(one.pipeline, one.line, title), "picture");
  fmt::print("# picture: {}\n", svg);
}

}  // namespace

int inspect_schedule(std::span<const std::string> arguments) {
  Question question{.shape = {.stages = 4, .microbatches = 8}};
  std::string name, svg;
  int columns = 160;
  bool vertical_sync = false;
  std::vector<std::string> names;
  for (const PipelineSchedule& schedule : pipeline_schedules()) names.emplace_back(schedule.name);
  CLI::App app("Prints the timeline of a pipeline schedule.", "trireme inspect schedule");
  app.add_option("name", name, fmt::format("{}; or all, for a table", join(names, ", ")))->required();
  app.add_option("--stages", question.shape.stages, "stages of the pipeline; default 4")
      ->check(CLI::Range(1, 1024));
  app.add_option("--microbatches", question.shape.microbatches, "microbatches of a step; default 8")
      ->check(CLI::Range(int64_t{1}, int64_t{16384}));
  app.add_option("--chunks", question.shape.chunks_per_stage,
                 "chunks of the model on each stage; default: as many as the schedule needs")
      ->check(CLI::Range(1, 64));
  app.add_flag("--vertical-sync", vertical_sync,
               "pipedream: all stages use the same version of weights for a microbatch");
  app.add_option(
         "--times", question.times,
         "times of a stage's forward, backward for inputs and backward for weights, and of a message; "
         "default 1,1,1,0")
      ->delimiter(',')
      ->expected(4)
      ->check(CLI::NonNegativeNumber);
  app.add_option("--steps", question.steps,
                 "consecutive steps to show; default 1, for asynchronous schedules 4")
      ->check(CLI::Range(1, 1000));
  app.add_option("--columns", columns, "most characters of a line; default 160")
      ->check(CLI::Range(10, 10000));
  app.add_option("--svg", svg, "also write a picture to this file");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;

  if (vertical_sync) question.shape.versions = PipelineShape::Versions::kVerticalSync;
  if (name == "all")
    print_all(question);
  else
    print_one(find_schedule(name), question, columns, svg);
  return kOk;
}

}  // namespace trireme::cli

// See run_record.h.
#include "trireme/run/run_record.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/train/step.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kRunFile = "run.json";
constexpr const char* kEventsFile = "events.jsonl";
constexpr const char* kSamplesFile = "samples.jsonl";

// Texts may quote names of files, which need not be UTF-8.
std::string text_of(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// A line of the log; `more` is what this kind of event has besides.
std::string event_line(std::string_view kind, int64_t step, const Json& more) {
  Json event{{"time", wall_seconds()}, {"event", kind}, {"step", step}};
  event.update(more);
  return text_of(event);
}

// A log that can not be opened is left out.
std::optional<LineFile> open_log(const std::string& folder, const char* name) {
  try {
    return LineFile((fs::path(folder) / name).string());
  } catch (const Error&) {
    return std::nullopt;
  }
}

Json machine_json() {
  utsname system{};
  ::uname(&system);
  return {{"cpu", cpu_model()},
          {"cores", core_count()},
          {"memory_bytes", total_memory_bytes()},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)}};
}

Json run_json(const RunStart& run, double peak_flops) {
  Json about{{"format", kRunFolderFormat},
             {"trireme", version()},
             {"started", wall_seconds()},
             {"host", host_name()},
             {"pid", ::getpid()},
             {"device", run.device},
             {"machine", machine_json()},
             {"family", run.model.record.family},
             {"parameters", run.parameters},
             {"trained_parameters", trained_parameters(run.program)},
             {"ranks", std::max(1, run.plan.mesh.ranks())},
             {"steps", run.config.train.steps},
             {"steps_before", run.steps_done},
             {"unit", run.data.vocab > 0 ? "tokens" : "samples"},
             {"data", run.data.summary},
             {"flops_per_step", run.flops_per_step}};
  if (peak_flops > 0) about["peak_flops"] = peak_flops;
  about["memory"] = memory_by_kind(run.program);
  return about;
}

}  // namespace

double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1e3;
}

void RunRecord::add_text(std::string_view kind, int64_t step, const std::string& text) {
  if (events_) events_->add(event_line(kind, step, {{"text", text}}));
}

void RunRecord::started(const RunStart& run) {
  ForwardingObserver::started(run);
  folder_ = run.folder;
  step_ = run.steps_done;
  try {
    replace_file((fs::path(folder_) / kRunFile).string(), text_of(run_json(run, peak_flops()), 2) + "\n");
  } catch (const Error& error) {
    ForwardingObserver::note(fmt::format("warning: {}", error.what()));
  }
  events_ = open_log(folder_, kEventsFile);
  if (!events_) return;
  events_->add(event_line(run.steps_done > 0 ? "resume" : "start", run.steps_done,
                          {{"host", host_name()},
                           {"pid", ::getpid()},
                           {"ranks", std::max(1, run.plan.mesh.ranks())},
                           {"trireme", version()}}));
  for (const std::string& line : std::exchange(before_start_, {})) add_text("note", step_, line);
}

void RunRecord::note(const std::string& line) {
  ForwardingObserver::note(line);
  if (!events_) return before_start_.push_back(line);
  add_text("note", step_, line);
}

void RunRecord::stepped(const StepMetrics& step) {
  step_ = step.step;
  ForwardingObserver::stepped(step);
}

void RunRecord::saved(const std::string& checkpoint) {
  ForwardingObserver::saved(checkpoint);
  if (!events_) return;
  events_->add(event_line("checkpoint", step_, {{"checkpoint", fs::path(checkpoint).filename().string()}}));
}

void RunRecord::skipped(int64_t step, const std::string& line) {
  ForwardingObserver::skipped(step, line);
  add_text("skip", step, line);
}

void RunRecord::rewound(int64_t step, const std::string& line) {
  ForwardingObserver::rewound(step, line);
  step_ = step;
  add_text("rewind", step, line);
}

void RunRecord::lost_rank(const std::string& line) {
  ForwardingObserver::lost_rank(line);
  add_text("lost_rank", step_, line);
}

void RunRecord::continued(const Continuation& how) {
  ForwardingObserver::continued(how);
  if (!events_) return;
  events_->add(event_line(
      "continued", how.after,
      {{"text", how.why}, {"ranks", how.ranks}, {"steps_again", how.again}, {"seconds", how.seconds}}));
}

void RunRecord::sampled(int64_t step, const std::string& text) {
  ForwardingObserver::sampled(step, text);
  if (!samples_) samples_ = open_log(folder_, kSamplesFile);
  if (samples_) samples_->add(text_of(Json{{"time", wall_seconds()}, {"step", step}, {"text", text}}));
}

void RunRecord::ended(const RunResult& result) {
  ForwardingObserver::ended(result);
  if (!events_ || result.end == RunResult::End::kRegroup) return;  // the run goes on
  events_->add(
      event_line("end", result.steps, {{"end", name(result.end)}, {"exit_code", exit_code_of(result.end)}}));
}

void RunRecord::failed(const std::exception& error) {
  const bool began = events_.has_value();
  if (!began && (folder_.empty() || !fs::exists(fs::path(folder_) / kEventsFile))) return;
  if (!began) events_ = open_log(folder_, kEventsFile);
  if (!events_) return;
  events_->add(
      event_line(began ? "failed" : "refused", step_, {{"exit_code", kFailed}, {"text", error.what()}}));
}

}  // namespace trireme

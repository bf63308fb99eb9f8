// See tensorboard_log.h.
#include "trireme/run/tensorboard_log.h"

#include <unistd.h>

#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/base/text.h"
#include "trireme/run/config_fields.h"
#include "trireme/run/run_record.h"
#include "trireme/run/tensorboard_events.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A number, a truth value, or the text that TOML has.
tensorboard::SettingValue setting_value(const Field& field) {
  if (const auto* const* number = std::get_if<int64_t*>(&field.value)) return static_cast<double>(**number);
  if (const auto* const* number = std::get_if<double*>(&field.value)) return **number;
  if (const auto* const* truth = std::get_if<bool*>(&field.value)) return **truth;
  if (const auto* const* text = std::get_if<std::string*>(&field.value)) return **text;
  return value_text(field);
}

// Where a run writes says nothing of how well it learns.
tensorboard::Settings settings_of(Config config) {
  tensorboard::Settings settings;
  for (const Field& field : config_fields(config)) {
    if (field.section() != "run") settings.emplace_back(field.name, setting_value(field));
  }
  return settings;
}

std::string code_block(std::string_view text) {
  return fmt::format("```\n{}\n```", text);
}

std::string new_file_name(const std::string& folder, double time) {
  for (int number = 0;; ++number) {
    const std::string name = fmt::format("{}{:010}.{}.{}.{}", kTensorBoardFile, static_cast<int64_t>(time),
                                         host_name(), ::getpid(), number);
    const fs::path path = fs::path(folder) / name;
    if (!fs::exists(path)) return path.string();
  }
}

}  // namespace

void TensorBoardLog::started(const RunStart& run) {
  ForwardingObserver::started(run);
  step_ = run.steps_done;
  rate_name_ = run.data.vocab > 0 ? "perf/tokens_per_second" : "perf/samples_per_second";
  const double now = wall_seconds();
  try {
    file_.emplace(new_file_name(run.folder, now));
  } catch (const Error& error) {
    note(fmt::format("warning: {}; the run continues without a TensorBoard file", error.what()));
    return;
  }
  add(tensorboard::version_record(now));
  if (run.steps_done > 0) add(tensorboard::restart_record(now, run.steps_done + 1));
  const tensorboard::Settings settings = settings_of(run.config);
  add(tensorboard::settings_record(now, settings, {"train/loss", "validation/loss", "validation/accuracy"}));
  add(tensorboard::session_start_record(now, settings));
  add(tensorboard::text_record(now, step_, "config", code_block(config_toml(run.config))));
  add(tensorboard::text_record(now, step_, "plan", code_block(to_json(run.plan))));
}

void TensorBoardLog::stepped(const StepMetrics& step) {
  ForwardingObserver::stepped(step);
  step_ = step.step;
  std::vector<tensorboard::Scalar> scalars = {
      {"train/loss", step.loss},
      {"train/learning_rate", step.lr},
      {"train/gradient_norm", step.grad_norm},
      {rate_name_, step.samples_per_second},
      {"perf/step_seconds", step.step_seconds},
      {"perf/communication_seconds", step.comm_seconds},
      {"perf/bytes_sent", static_cast<double>(step.bytes_sent)},
      {"memory/peak_bytes", static_cast<double>(step.peak_bytes)},
  };
  const auto add_if = [&](const char* tag, const std::optional<double>& value) {
    if (value) scalars.push_back({tag, *value});
  };
  add_if("train/critical_batch", step.critical_batch);
  add_if("perf/mfu", step.mfu);
  add_if("exchange/compression_ratio", step.compression_ratio);
  add_if("exchange/residual_norm", step.residual_norm);
  add_if("exchange/waiting_share", step.waiting_share);
  add_if("exchange/staleness_mean", step.staleness_mean);
  add_if("exchange/staleness_max", step.staleness_max);
  for (size_t kind = 0; step.numbers && kind < kTensorKindNames.size(); ++kind) {
    for (const auto& [name, value] : step.numbers->shares(static_cast<TensorKind>(kind)))
      scalars.push_back({fmt::format("numbers/{}/{}", kTensorKindNames[kind], name), value});
  }
  for (const ExpertUse& use : step.experts) {
    scalars.push_back({fmt::format("experts/{}/max_load", use.layer), use.max_load});
    scalars.push_back({fmt::format("experts/{}/dropped", use.layer), use.dropped});
    scalars.push_back({fmt::format("experts/{}/entropy", use.layer), use.entropy});
  }
  add(tensorboard::scalars_record(step.time, step.step, scalars));
}

void TensorBoardLog::rewound(int64_t step, const std::string& line) {
  ForwardingObserver::rewound(step, line);
  add(tensorboard::restart_record(wall_seconds(), step + 1));
}

void TensorBoardLog::validated(const ValidationMetrics& validation) {
  ForwardingObserver::validated(validation);
  add(tensorboard::scalars_record(
      validation.time, validation.step,
      {{"validation/loss", validation.loss}, {"validation/accuracy", validation.accuracy}}));
}

void TensorBoardLog::sampled(int64_t step, const std::string& text) {
  ForwardingObserver::sampled(step, text);
  add(tensorboard::text_record(wall_seconds(), step, "sample", code_block(printable(text))));
}

void TensorBoardLog::ended(const RunResult& result) {
  ForwardingObserver::ended(result);
  add(tensorboard::session_end_record(wall_seconds()));
}

void TensorBoardLog::add(const std::string& record) {
  if (!file_) return;
  file_->add_bytes(record);
  if (const std::string problem = file_->take_problem(); !problem.empty())
    note(fmt::format("warning: {}; what is for TensorBoard is kept and tried again", problem));
}

}  // namespace trireme

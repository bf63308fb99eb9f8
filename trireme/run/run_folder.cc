// Files of a run; see run_folder.h.
#include "trireme/run/run_folder.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/run/plan_facts.h"
#include "trireme/run/run_lock.h"
#include "trireme/run/step_timeline.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.toml";
constexpr const char* kPlan = "plan.json";
constexpr const char* kData = "data.json";
constexpr const char* kVersion = "version.txt";
constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kRun = "run.json";
constexpr const char* kEvents = "events.jsonl";
constexpr const char* kRanks = "ranks";
constexpr const char* kSamples = "samples.jsonl";
constexpr const char* kCheckpoints = "checkpoints";

bool has_lock_alone(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().filename() != kLockFile) return false;
  }
  return !error;
}

// JSON has no NaN or infinity.
nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

constexpr std::string_view kBadNames[] = {"", "gradient", "loss", "spike"};  // by StepResult::Bad

nlohmann::ordered_json numbers_json(const NumericMetrics& numbers) {
  nlohmann::ordered_json object{{"format", name(numbers.format)}, {"loss_scale", numbers.loss_scale}};
  for (size_t kind = 0; kind < kTensorKindNames.size(); ++kind) {
    for (const auto& [share_name, share] : numbers.shares(static_cast<TensorKind>(kind)))
      object[kTensorKindNames[kind]][share_name] = share;
  }
  return object;
}

}  // namespace

RunFolder::RunFolder(const RunOptions& run) : path_(run.dir) {
  try {
    if (!run.dir.empty()) {
      make(run.dir);
      return;
    }
    const std::time_t now = std::time(nullptr);
    char name[32];
    std::strftime(name, sizeof name, "%Y-%m-%d-%H%M%S", std::localtime(&now));
    make("runs");
    path_ = (fs::path("runs") / name).string();
    // Made, not looked for: another run may begin in the same second.
    for (int again = 2; !fs::create_directory(path_); ++again)
      path_ = (fs::path("runs") / fmt::format("{}-{}", name, again)).string();
    made_.push_back(path_);
  } catch (const fs::filesystem_error& error) {
    throw_error("cannot create the run folder {}: {}; choose another with run.dir", path_,
                error.code().message());
  }
}

void RunFolder::make(const std::string& folder) {
  std::vector<fs::path> missing;
  for (fs::path path = fs::path(folder).lexically_normal(); !path.empty() && !fs::exists(path);
       path = path.parent_path())
    missing.push_back(path);
  fs::create_directories(folder);
  for (auto path = missing.rbegin(); path != missing.rend(); ++path) made_.push_back(path->string());
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (made_.empty() || !has_lock_alone(path_)) return;
  remove_lock(path_);
  for (auto path = made_.rbegin(); path != made_.rend(); ++path)
    fs::remove(*path, ignored);  // not if there is anything in it
}

std::string set_aside(const std::string& folder) {
  const fs::path run(folder);
  if (!fs::exists(run / kCheckpoints) && !fs::exists(run / kMetrics)) return "";
  try {
    fs::path earlier;
    for (int number = 1;; ++number) {
      earlier = run / fmt::format("earlier-{}", number);
      if (fs::create_directory(earlier)) break;
    }
    for (const char* name : {kCheckpoints, kMetrics, kConfig, kPlan, kData, kVersion, kRun, kEvents, kRanks,
                             kSamples, kPlanFactsFile, kTimelineFolder}) {
      if (fs::exists(run / name)) fs::rename(run / name, earlier / name);
    }
    std::vector<fs::path> of_tensorboard;
    for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
      if (entry.path().filename().string().starts_with(kTensorBoardFile))
        of_tensorboard.push_back(entry.path().filename());
    }
    for (const fs::path& name : of_tensorboard) fs::rename(run / name, earlier / name);
    return earlier.string();
  } catch (const fs::filesystem_error& error) {
    throw_error(
        "cannot set aside what an earlier run left in {}: {}; move it yourself, or choose another "
        "run.dir",
        folder, error.what());
  }
}

void write_run_description(const std::string& folder, const Config& config, const Plan& plan) {
  replace_file(fs::path(folder) / kConfig, config_toml(config));
  replace_file(fs::path(folder) / kPlan, to_json(plan) + "\n");
  replace_file(fs::path(folder) / kVersion, fmt::format("trireme {}\n", version()));
}

void write_data_description(const std::string& folder, const DataDescription& data) {
  if (data.classes.empty()) return;
  const nlohmann::ordered_json object{{"classes", data.classes},
                                      {"mean", data.mean},
                                      {"deviation", data.deviation},
                                      {"input", std::vector<int64_t>(data.input.begin(), data.input.end())}};
  replace_file(fs::path(folder) / kData,
               object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

DataDescription read_data_description(const std::string& folder) {
  const fs::path path = fs::path(folder) / kData;
  std::ifstream in(path);
  if (!in) return {};
  try {
    const nlohmann::json object = nlohmann::json::parse(in);
    DataDescription data{object.at("classes").get<std::vector<std::string>>(),
                         object.at("mean").get<std::vector<float>>(),
                         object.at("deviation").get<std::vector<float>>()};
    if (object.contains("input")) {
      const auto extents = object["input"].get<std::vector<int64_t>>();
      data.input = Shape(extents);
    }
    return data;
  } catch (const nlohmann::json::exception& error) {
    throw_error("{}: not as it was written: {}; remove it, and give --data.mean and --data.deviation",
                path.string(), error.what());
  }
}

std::optional<Plan> plan_of_earlier_run(const std::string& folder) {
  const fs::path plan = fs::path(folder) / kPlan, checkpoints = fs::path(folder) / kCheckpoints;
  std::error_code error;
  const bool saved = fs::is_directory(checkpoints, error) && !fs::is_empty(checkpoints, error);
  if (folder.empty() || !saved || !fs::exists(plan, error)) return std::nullopt;
  return read_plan(plan.string(), 0);
}

std::string_view version() {
  return TRIREME_VERSION;
}

void replace_file(const std::string& path, const std::string& text) {
  const std::string incoming = path + ".new";
  std::ofstream out(incoming, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw_error("cannot write {}: {}", path, std::strerror(errno));
  std::error_code error;
  fs::rename(incoming, path, error);
  if (error) throw_error("cannot write {}: {}", path, error.message());
}

KeptLines keep_lines_up_to(const std::string& path, int64_t step) {
  KeptLines lines;
  if (!fs::exists(path)) return lines;
  expect_regular_file(path, "the log of a run");
  std::ifstream in(path);
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) continue;
    lines.last_step = object["step"].get<int64_t>();
    if (lines.last_step > step) continue;
    kept += line + "\n";
    if (const auto found = object.find("seconds"); found != object.end() && found->is_number())
      lines.seconds = found->get<double>();
  }
  in.close();
  replace_file(path, kept);
  return lines;
}

std::map<std::string, size_t> memory_by_kind(const Program& program) {
  std::map<std::string, size_t> kinds;
  const auto add = [&](std::string_view kind, size_t bytes) {
    if (bytes > 0) kinds[std::string(kind)] += bytes;
  };
  for (const auto& [role, bytes] : state_bytes_by_role(program))
    add(role == Role::kNone ? "other" : name(role), bytes);
  add("activations", program.arena_bytes);
  add("communication", program.comm_bytes);
  add("inputs", program.input_bytes);
  return kinds;
}

MetricsFile::MetricsFile(const std::string& folder, int64_t step, std::string_view rate_name)
    : rate_name_(rate_name) {
  const std::string path = (fs::path(folder) / kMetrics).string();
  before_ = keep_lines_up_to(path, step);
  file_.emplace(path);
}

std::vector<std::pair<std::string_view, double>> NumericMetrics::shares(TensorKind kind) const {
  using Counts = NumberCounts;
  const Counts& of = counts[static_cast<size_t>(kind)];
  return {{"gradients_zero", of.share(Counts::kZeroGradients, Counts::kGradients)},
          {"gradients_subnormal", of.share(Counts::kSubnormalGradients, Counts::kGradients)},
          {"gradients_saturated", of.share(Counts::kSaturatedGradients, Counts::kGradients)},
          {"weights_saturated", of.share(Counts::kSaturatedWeights, Counts::kWeights)},
          {"updates_lost", of.share(Counts::kLostUpdates, Counts::kUpdates)},
          {"updates_lost_in_format", of.share(Counts::kLostInFormat, Counts::kUpdates)}};
}

void MetricsFile::write(const StepMetrics& m) {
  nlohmann::ordered_json object{{"step", m.step},
                                {"loss", number(m.loss)},
                                {"lr", m.lr},
                                {"grad_norm", number(m.grad_norm)},
                                {rate_name_, m.samples_per_second},
                                {"step_seconds", m.step_seconds},
                                {"comm_seconds", m.comm_seconds},
                                {"bytes_sent", m.bytes_sent},
                                {"peak_bytes", m.peak_bytes},
                                {"samples", m.samples},
                                {"seconds", m.seconds},
                                {"time", m.time}};
  if (m.mfu) object["mfu"] = *m.mfu;
  if (m.critical_batch) object["critical_batch"] = number(*m.critical_batch);
  if (m.compression_ratio) object["compression_ratio"] = number(*m.compression_ratio);
  if (m.residual_norm) object["residual_norm"] = number(*m.residual_norm);
  if (m.waiting_share) object["waiting_share"] = *m.waiting_share;
  if (m.staleness_mean) object["staleness_mean"] = *m.staleness_mean;
  if (m.staleness_max) object["staleness_max"] = *m.staleness_max;
  if (m.staleness_mean) object["arrivals"] = m.arrivals;  // also where nobody had to come
  const auto of_layers = [&](const char* name, double ExpertUse::*what) {
    for (const ExpertUse& layer : m.experts)
      object[name].push_back(nlohmann::ordered_json(number(layer.*what)));
  };
  of_layers("expert_max_load", &ExpertUse::max_load);
  of_layers("expert_dropped", &ExpertUse::dropped);
  of_layers("router_entropy", &ExpertUse::entropy);
  of_layers("balance_loss", &ExpertUse::balance);
  if (m.bad != StepResult::Bad::kNo) object["skipped"] = kBadNames[static_cast<size_t>(m.bad)];
  if (m.rewinds > 0) object["rewinds"] = m.rewinds;
  if (m.numbers) object["numbers"] = numbers_json(*m.numbers);
  if (m.expected) {
    object["predicted_seconds"] = m.expected->seconds;
    object["predicted_bytes"] = m.expected->peak_bytes;
  }
  file_->add(object.dump());
}

void MetricsFile::write(const ValidationMetrics& m) {
  file_->add(nlohmann::ordered_json{
      {"step", m.step},
      {"validation_loss", number(m.loss)},
      {"validation_accuracy", m.accuracy},
      {"validation_targets", m.targets},
      {"time",
       m.time}}.dump());
}

void MetricsFile::write(const RankArrivals& a) {
  file_->add(nlohmann::ordered_json{{"step", a.step}, {"rank", a.rank}, {"arrivals", a.arrivals}}.dump());
}

}  // namespace trireme

// Files of a run; see run_folder.h.
#include "trireme/train/run_folder.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  if (!out) throw_error("cannot write {}: {}", path.string(), std::strerror(errno));
}

// Lines of steps up to `step`, and the last time in them; lines that are no JSON (a crash in the middle of
// one) are dropped.
struct KeptLines {
  std::string text;
  double seconds = 0;
};
KeptLines lines_up_to(const fs::path& path, int64_t step) {
  std::ifstream in(path);
  KeptLines kept;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_object() && object.contains("step") && object["step"].is_number_integer() &&
        object["step"].get<int64_t>() <= step) {
      kept.text += line + "\n";
      if (const auto seconds = object.find("seconds"); seconds != object.end() && seconds->is_number())
        kept.seconds = seconds->get<double>();
    }
  }
  return kept;
}

// JSON has no NaN or infinity.
nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace

std::string make_run_folder(const RunOptions& run) {
  fs::path folder = run.dir;
  if (run.dir.empty()) {
    const std::time_t now = std::time(nullptr);
    char name[32];
    std::strftime(name, sizeof name, "%Y-%m-%d-%H%M%S", std::localtime(&now));
    folder = fs::path("runs") / name;
    for (int again = 2; fs::exists(folder); ++again)
      folder = fs::path("runs") / fmt::format("{}-{}", name, again);
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw_error("cannot create the run folder {}: {}; choose another with run.dir", folder.string(),
                error.message());
  return folder.string();
}

void write_run_description(const std::string& folder, const Config& config) {
  write_file(fs::path(folder) / "config.toml", config_toml(config));
  write_file(fs::path(folder) / "version.txt", fmt::format("trireme {}\n", version()));
}

std::string_view version() {
  return TRIREME_VERSION;
}

MetricsFile::MetricsFile(const std::string& folder, int64_t step, std::string_view rate_name)
    : path_((fs::path(folder) / "metrics.jsonl").string()),
      rate_name_(rate_name),
      file_(nullptr, std::fclose) {
  if (fs::exists(path_)) {
    const KeptLines kept = lines_up_to(path_, step);
    seconds_ = kept.seconds;
    write_file(path_ + ".new", kept.text);
    fs::rename(path_ + ".new", path_);
  }
  file_.reset(std::fopen(path_.c_str(), "a"));
  if (!file_) throw_error("cannot write {}: {}", path_, std::strerror(errno));
}

void MetricsFile::line(const std::string& text) {
  if (std::fputs((text + "\n").c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0) {
    throw_error("cannot write {}: {}; free some room and start again with the same run.dir", path_,
                std::strerror(errno));
  }
}

void MetricsFile::write(const StepMetrics& m) {
  nlohmann::ordered_json object{{"step", m.step},
                                {"loss", number(m.loss)},
                                {"lr", m.lr},
                                {"grad_norm", number(m.grad_norm)},
                                {rate_name_, m.samples_per_second},
                                {"step_seconds", m.step_seconds},
                                {"comm_seconds", m.comm_seconds},
                                {"peak_bytes", m.peak_bytes},
                                {"samples", m.samples},
                                {"seconds", m.seconds}};
  if (m.critical_batch) object["critical_batch"] = number(*m.critical_batch);
  line(object.dump());
}

void MetricsFile::write(const ValidationMetrics& m) {
  line(nlohmann::ordered_json{
      {"step", m.step}, {"validation_loss", number(m.loss)}, {"validation_accuracy", m.accuracy}}
           .dump());
}

}  // namespace trireme

// See runs.h.
#include "trireme/dashboard/runs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "trireme/base/error.h"

namespace trireme::dashboard {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLevels = 4;         // of folders within folders
constexpr size_t kMostRuns = 100'000;  // more is a folder given by mistake

// The name of a folder for people: of "runs/" it is "runs", of "." that of the folder itself.
std::string own_name(const std::string& folder) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  return whole.filename().empty() ? folder : whole.filename().string();
}

}  // namespace

Runs::Runs(RunsOptions options) : options_(std::move(options)) {
  for (const std::string& folder : options_.folders) {
    if (!fs::is_directory(folder))
      throw_error("{} is not a folder; name a run's folder, or one that holds the folders of runs", folder);
  }
}

void Runs::look(double now) {
  if (now - looked_ < options_.look_again_seconds && now >= looked_) return;
  looked_ = now;
  // From the clock: a page that was served by an earlier process gets everything.
  if (version_ == 0) version_ = static_cast<int64_t>(1000 * now);
  for (const std::string& folder : options_.folders) {
    const bool one = options_.folders.size() == 1 && !is_run(folder);
    find(folder, one ? "" : own_name(folder), kMostLevels);
  }
  const LockedFiles locked = locked_files();
  ++version_;
  bool any = false;
  for (Run& run : runs_) {
    const bool gone = !is_run(run.folder);
    std::string stamp = gone ? "" : stamp_of(run.folder);
    // Whether a process has a run, no file says.
    const bool written = stamp != run.stamp || gone != run.gone;
    if (!written && run.summary.state != "running") continue;
    RunSummary summary = gone ? run.summary : read_summary(run.folder, locked, now);
    run.stamp = std::move(stamp);
    if (!written && summary == run.summary) continue;
    run.summary = std::move(summary);
    run.gone = gone;
    run.changed = version_;
    any = true;
  }
  if (any) {
    update_varying();
  } else {
    --version_;
  }
}

void Runs::find(const std::string& folder, const std::string& name, int levels) {
  if (runs_.size() >= kMostRuns) return;
  if (is_run(folder) && !numbers_.contains(folder)) {
    numbers_[folder] = runs_.size();
    runs_.push_back({name.empty() ? own_name(folder) : name, folder, {}, "", false, 0});
  }
  if (levels == 0) return;
  std::error_code error;
  std::vector<fs::path> inner;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    const std::string own = entry->path().filename().string();
    // Links are not followed. What a run keeps for itself holds no runs.
    if (!own.starts_with('.') && own != "checkpoints" && own != "ranks" && own != "timeline" &&
        fs::is_directory(entry->symlink_status(ignored)))
      inner.push_back(entry->path());
  }
  std::ranges::sort(inner);
  for (const fs::path& path : inner)
    find(path.string(), (name.empty() ? "" : name + "/") + path.filename().string(), levels - 1);
}

void Runs::update_varying() {
  std::map<std::string, const std::string*> seen;
  std::set<std::string> varying;
  size_t runs = 0;
  std::map<std::string, size_t> times;
  for (const Run& run : runs_) {
    if (run.gone || run.summary.config.empty()) continue;
    ++runs;
    for (const auto& [name, value] : run.summary.config) {
      const auto [at, first] = seen.emplace(name, &value);
      if (!first && *at->second != value) varying.insert(name);
      ++times[name];
    }
  }
  for (const auto& [name, count] : times)
    if (count < runs) varying.insert(name);
  varying.erase("run.dir");
  if (varying == varying_) return;
  varying_ = std::move(varying);
  for (Run& run : runs_) run.changed = version_;  // answers name the settings in which runs differ
}

size_t Runs::Logs::bytes() const {
  size_t bytes = metrics ? metrics->bytes() : 0;
  for (const auto& [rank, log] : ranks) bytes += log.bytes();
  return bytes;
}

Runs::Logs& Runs::logs(size_t number) {
  Logs& logs = logs_[number];
  logs.asked = ++asked_;
  return logs;
}

void Runs::forget_oldest(size_t keep) {
  size_t bytes = 0;
  for (const auto& [number, logs] : logs_) bytes += logs.bytes();
  while (bytes > options_.most_bytes && logs_.size() > 1) {
    const auto oldest = std::ranges::min_element(
        logs_, {}, [&](const auto& one) { return one.first == keep ? INT64_MAX : one.second.asked; });
    bytes -= oldest->second.bytes();
    logs_.erase(oldest);
  }
}

const NumberLog& Runs::metrics(size_t number) {
  Logs& own = logs(number);
  if (!own.metrics) own.metrics = std::make_unique<NumberLog>(runs_[number].folder + "/metrics.jsonl");
  if (own.metrics->refresh()) forget_oldest(number);
  return *own.metrics;
}

const std::map<int, NumberLog>& Runs::ranks(size_t number) {
  Logs& own = logs(number);
  const fs::path folder = fs::path(runs_[number].folder) / "ranks";
  std::error_code error;
  if (fs::is_directory(fs::symlink_status(folder, error))) {
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      int rank = -1;
      const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), rank);
      if (problem == std::errc() && std::string_view(end) == ".jsonl" && rank >= 0)
        own.ranks.try_emplace(rank, entry->path().string());
    }
  }
  bool changed = false;
  for (auto& [rank, log] : own.ranks) changed |= log.refresh();
  if (changed) forget_oldest(number);
  return own.ranks;
}

}  // namespace trireme::dashboard

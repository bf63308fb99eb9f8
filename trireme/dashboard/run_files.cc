// See run_files.h.
#include "trireme/dashboard/run_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/json.h"
#include "trireme/base/machine.h"
#include "trireme/dashboard/plain_file.h"

namespace trireme::dashboard {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostFileBytes = size_t{4} << 20;  // of a description
constexpr size_t kTailBytes = size_t{64} << 10;     // some 200 steps
constexpr size_t kSampleBytes = size_t{256} << 10;  // of the newest texts
constexpr double kQuietSeconds = 60;
constexpr size_t kMostKinds = 32;  // of memory

std::string in(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

json object_of(std::string_view text) {
  try {
    json parsed = parse_json<json>(text, "");
    if (parsed.is_object()) return parsed;
  } catch (const Error&) {  // nested too deep
  }
  return json::object();
}

std::optional<double> number_in(const json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string text_in(const json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

size_t last_place_of(std::string_view word, std::string_view text) {
  size_t last = std::string_view::npos;
  // Forward: a search of the C library is so much faster than std::string_view::rfind.
  for (size_t from = 0; from < text.size(); from = last + 1) {
    const void* found = ::memmem(text.data() + from, text.size() - from, word.data(), word.size());
    if (!found) break;
    last = static_cast<size_t>(static_cast<const char*>(found) - text.data());
  }
  return last;
}

// The last whole line of `tail` that has `word` in it, as an object.
json last_line_with(std::string_view tail, std::string_view word) {
  tail = tail.substr(0, tail.rfind('\n') + 1);
  for (;;) {
    const size_t at = last_place_of(word, tail);
    if (at == std::string_view::npos) return json::object();
    const size_t begin = tail.rfind('\n', at) + 1, end = tail.find('\n', at);
    json object = object_of(tail.substr(begin, end - begin));
    if (!object.empty() || begin == 0) return object;
    tail = tail.substr(0, begin);
  }
}

void read_run_json(const std::string& folder, RunSummary& summary) {
  const json run = object_of(PlainFile(in(folder, "run.json")).head(kMostFileBytes));
  summary.family = text_in(run, "family");
  summary.device = text_in(run, "device");
  summary.host = text_in(run, "host");
  if (const std::string unit = text_in(run, "unit"); !unit.empty()) summary.unit = unit;
  summary.ranks = static_cast<int>(std::clamp(number_in(run, "ranks").value_or(1), 1.0, 1e6));
  summary.parameters = number_in(run, "parameters");
  summary.steps = number_in(run, "steps");
  summary.started = number_in(run, "started");
  const auto memory = run.find("memory");
  if (memory == run.end() || !memory->is_object()) return;
  for (const auto& [kind, bytes] : memory->items()) {
    if (summary.memory.size() < kMostKinds && bytes.is_number()) summary.memory[kind] = bytes.get<double>();
  }
}

void read_metrics_tail(const PlainFile& metrics, RunSummary& summary) {
  if (!metrics) return;
  summary.changed = metrics.modified();
  const std::string tail = metrics.tail(kTailBytes);
  const json step = last_line_with(tail, "\"loss\""),
             validation = last_line_with(tail, "\"validation_loss\"");
  summary.step = number_in(step, "step");
  summary.loss = number_in(step, "loss");
  summary.seconds = number_in(step, "seconds");
  summary.mfu = number_in(step, "mfu");
  summary.validation_loss = number_in(validation, "validation_loss");
  for (const char* unit : {"tokens", "samples"}) {
    const std::optional<double> rate = number_in(step, fmt::format("{}_per_second", unit));
    if (!rate) continue;
    summary.rate = rate;
    summary.unit = unit;
  }
}

// What the run said last of how it ended; "" where it has begun again since, or says nothing.
std::string said_end(const std::string& tail) {
  std::string end;
  for (size_t begin = 0, next; (next = tail.find('\n', begin)) != std::string::npos; begin = next + 1) {
    const json event = object_of(std::string_view(tail).substr(begin, next - begin));
    const std::string kind = text_in(event, "event");
    if (kind == "start" || kind == "resume") end.clear();
    if (kind == "end") end = text_in(event, "end");
    if (kind == "failed") end = "failed";
  }
  return end;
}

uint64_t lock_number(uint64_t device, uint64_t inode) {
  return device * 0x9E3779B97F4A7C15u + inode;
}

RunState state_of(const std::string& folder, const RunSummary& summary, const LockedFiles& locked,
                  double now) {
  const PlainFile events(in(folder, "events.jsonl")), lock(in(folder, ".lock"));
  if (lock && locked.contains(lock_number(lock.device(), lock.inode()))) return "running";
  if (const std::string end = said_end(events.tail(kTailBytes)); !end.empty()) return end;
  // Locks of other hosts are not seen from here.
  const bool elsewhere = !summary.host.empty() && summary.host != host_name();
  if (elsewhere && summary.changed && now - *summary.changed < kQuietSeconds) return "running";
  if (events) return "lost";
  return summary.step && summary.steps && *summary.step >= *summary.steps ? "finished" : "unknown";
}

void flatten(const toml::table& table, const std::string& prefix, std::map<std::string, std::string>& flat) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, name + ".", flat);
    } else if (const auto* text = node.as_string()) {
      flat[name] = text->get();
    } else if (const auto* number = node.as_floating_point()) {
      flat[name] = fmt::format("{}", number->get());  // as short as it can be
    } else {
      std::ostringstream out;
      node.visit([&](const auto& value) { out << value; });
      flat[name] = out.str();
    }
  }
}

nlohmann::ordered_json read_checkpoints(const std::string& folder) {
  nlohmann::ordered_json found = nlohmann::ordered_json::array();
  std::error_code error;
  const fs::path checkpoints = in(folder, "checkpoints");
  if (!fs::is_directory(fs::symlink_status(checkpoints, error))) return found;
  std::vector<fs::path> names;
  for (fs::directory_iterator entry(checkpoints, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (fs::is_directory(entry->symlink_status(ignored))) names.push_back(entry->path());
  }
  std::ranges::sort(names);
  for (const fs::path& name : names) {
    double bytes = 0, modified = 0;
    std::error_code ignored;
    for (fs::directory_iterator file(name, ignored); !ignored && file != fs::directory_iterator();
         file.increment(ignored)) {
      const PlainFile part(file->path().string());
      bytes += static_cast<double>(part.size());
      modified = std::max(modified, part.modified());
    }
    found.push_back({{"name", name.filename().string()}, {"bytes", bytes}, {"time", modified}});
  }
  return found;
}

// The last objects of a log, in their order. A line that is torn or none of ours is left out.
nlohmann::ordered_json read_last_objects(const std::string& path, size_t bytes) {
  nlohmann::ordered_json objects = nlohmann::ordered_json::array();
  const PlainFile file(path);
  const std::string tail = file.tail(bytes);
  size_t begin = file.size() > static_cast<int64_t>(bytes) ? tail.find('\n') + 1 : 0;
  for (size_t next; (next = tail.find('\n', begin)) != std::string::npos; begin = next + 1) {
    const json object = object_of(std::string_view(tail).substr(begin, next - begin));
    if (!object.empty()) objects.push_back(nlohmann::ordered_json(object));
  }
  return objects;
}

}  // namespace

LockedFiles locked_files() {
  LockedFiles locked;
  std::ifstream in("/proc/locks");
  // "3: FLOCK  ADVISORY  WRITE 1234 fe:00:393219 0 EOF"
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string number, kind, how, what, process, place;
    words >> number >> kind >> how >> what >> process >> place;
    unsigned major = 0, minor = 0;
    unsigned long long inode = 0;
    if (kind == "FLOCK" && std::sscanf(place.c_str(), "%x:%x:%llu", &major, &minor, &inode) == 3)
      locked.insert(lock_number(gnu_dev_makedev(major, minor), inode));
  }
  return locked;
}

bool is_run(const std::string& folder) {
  std::error_code error;
  for (const char* name : {"metrics.jsonl", "run.json"}) {
    if (fs::is_regular_file(fs::symlink_status(in(folder, name), error))) return true;
  }
  return false;
}

std::map<std::string, std::string> flat_toml(const std::string& text) {
  std::map<std::string, std::string> flat;
  try {
    check_toml_depth(text, "config.toml", "");
    flatten(toml::parse(text), "", flat);
  } catch (const Error&) {
  } catch (const toml::parse_error&) {
  }
  return flat;
}

RunSummary read_summary(const std::string& folder, const LockedFiles& locked, double now) {
  RunSummary summary;
  read_run_json(folder, summary);
  summary.config = flat_toml(PlainFile(in(folder, "config.toml")).head(kMostFileBytes));
  const auto setting = [&](const char* name) {
    const auto found = summary.config.find(name);
    return found == summary.config.end() ? std::string() : found->second;
  };
  if (summary.family.empty()) summary.family = setting("model.family");
  if (!summary.steps && !setting("train.steps").empty())
    summary.steps = std::atof(setting("train.steps").c_str());
  read_metrics_tail(PlainFile(in(folder, "metrics.jsonl")), summary);
  if (!summary.started && summary.changed) summary.started = *summary.changed - summary.seconds.value_or(0);
  summary.state = state_of(folder, summary, locked, now);
  return summary;
}

std::string stamp_of(const std::string& folder) {
  std::string stamp;
  for (const char* name : {"metrics.jsonl", "run.json", "events.jsonl", "config.toml", "samples.jsonl",
                           "plan_facts.json", "timeline"}) {
    struct stat status {};
    if (::lstat(in(folder, name).c_str(), &status) != 0) status = {};
    stamp += fmt::format("{} {} {}.{};", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                         status.st_mtim.tv_nsec);
  }
  return stamp;
}

nlohmann::ordered_json read_details(const std::string& folder) {
  return {{"run", object_of(PlainFile(in(folder, "run.json")).head(kMostFileBytes))},
          {"plan", object_of(PlainFile(in(folder, "plan.json")).head(kMostFileBytes))},
          {"config", flat_toml(PlainFile(in(folder, "config.toml")).head(kMostFileBytes))},
          {"facts", object_of(PlainFile(in(folder, "plan_facts.json")).head(kMostFileBytes))},
          {"events", read_last_objects(in(folder, "events.jsonl"), kTailBytes)},
          {"samples", read_last_objects(in(folder, "samples.jsonl"), kSampleBytes)},
          {"checkpoints", read_checkpoints(folder)}};
}

}  // namespace trireme::dashboard

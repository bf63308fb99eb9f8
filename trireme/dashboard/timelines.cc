// See timelines.h.
#include "trireme/dashboard/timelines.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/dashboard/plain_file.h"

namespace trireme::dashboard {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Ordered = nlohmann::ordered_json;

constexpr size_t kMostTimelineBytes = size_t{8} << 20;  // of a file
constexpr size_t kMostRanks = 512, kMostEvents = 20'000;

bool copy_number(const json& from, const char* name, Ordered& to, double less = 0) {
  const auto found = from.find(name);
  if (found == from.end() || !found->is_number() || !std::isfinite(found->get<double>())) return false;
  if (found->is_number_integer() && less == 0) {
    to[name] = found->get<int64_t>();
  } else {
    to[name] = found->get<double>() - less;
  }
  return true;
}

void copy_text(const json& from, const char* name, Ordered& to) {
  constexpr size_t kLongest = 200;
  const auto found = from.find(name);
  if (found != from.end() && found->is_string()) to[name] = found->get<std::string>().substr(0, kLongest);
}

Ordered event_of(const json& from) {
  Ordered event;
  if (!from.is_object()) return event;
  copy_text(from, "name", event);
  copy_text(from, "kind", event);
  copy_text(from, "track", event);
  if (!copy_number(from, "begin", event) || !copy_number(from, "end", event)) return {};
  copy_number(from, "bytes", event);
  copy_number(from, "microbatch", event);
  return event;
}

Ordered rank_of(const json& from) {
  Ordered rank, events = Ordered::array();
  if (!from.is_object() || !copy_number(from, "rank", rank)) return {};
  copy_number(from, "stands_for", rank);
  copy_number(from, "left_out", rank);
  if (const auto all = from.find("events"); all != from.end() && all->is_array()) {
    for (const json& one : *all) {
      if (events.size() == kMostEvents) break;
      if (Ordered event = event_of(one); !event.is_null()) events.push_back(std::move(event));
    }
  }
  rank["events"] = std::move(events);
  return rank;
}

// All times of a file, counted from `zero`.
void count_from(double zero, Ordered& timeline) {
  timeline["begin"] = timeline["begin"].get<double>() - zero;
  for (Ordered& rank : timeline["ranks"]) {
    for (Ordered& event : rank["events"]) {
      event["begin"] = event["begin"].get<double>() - zero;
      event["end"] = event["end"].get<double>() - zero;
    }
  }
}

Ordered file_of(const std::string& path) {
  return read_timeline(PlainFile(path).head(kMostTimelineBytes));
}

// By rank.
std::map<int, Ordered> files_of_ranks(const fs::path& folder) {
  std::map<int, Ordered> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int rank = -1;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), rank);
    if (problem != std::errc() || std::string_view(end) != ".json" || rank < 0) continue;
    if (files.size() == kMostRanks) break;
    if (Ordered file = file_of(entry->path().string()); !file.is_null()) files[rank] = std::move(file);
  }
  return files;
}

// What ranks did in one step, as one.
Ordered joined(std::map<int, Ordered> files) {
  if (files.empty()) return nullptr;
  const Ordered step = files.begin()->second.value("step", Ordered());
  std::erase_if(files, [&](const auto& file) { return file.second.value("step", Ordered()) != step; });
  double zero = HUGE_VAL, end = 0;
  for (const auto& [rank, file] : files) zero = std::min(zero, file["begin"].get<double>());
  Ordered all{{"step", step}, {"begin", 0}, {"seconds", 0}, {"ranks", Ordered::array()}};
  for (auto& [rank, file] : files) {
    count_from(zero, file);
    end = std::max(end, file["begin"].get<double>() + file["seconds"].get<double>());
    for (Ordered& one : file["ranks"]) {
      one["begin"] = file["begin"];
      one["seconds"] = file["seconds"];
      all["ranks"].push_back(std::move(one));
    }
  }
  all["seconds"] = end;
  return all;
}

}  // namespace

Ordered read_timeline(std::string_view text) {
  json file;
  try {
    file = parse_json<json>(text, "");
  } catch (const Error&) {  // nested too deep
  }
  Ordered timeline;
  if (!file.is_object() || !copy_number(file, "begin", timeline) || !copy_number(file, "seconds", timeline))
    return nullptr;
  copy_number(file, "step", timeline);
  timeline["ranks"] = Ordered::array();
  if (const auto ranks = file.find("ranks"); ranks != file.end() && ranks->is_array()) {
    for (const json& one : *ranks) {
      if (timeline["ranks"].size() == kMostRanks) break;
      if (Ordered rank = rank_of(one); !rank.is_null()) timeline["ranks"].push_back(std::move(rank));
    }
  }
  return timeline;
}

Ordered read_timelines(const std::string& folder) {
  const fs::path timelines = fs::path(folder) / "timeline";
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(timelines, error)))
    return {{"real", nullptr}, {"simulated", nullptr}};
  return {{"real", joined(files_of_ranks(timelines))},
          {"simulated", file_of((timelines / "simulated.json").string())}};
}

}  // namespace trireme::dashboard

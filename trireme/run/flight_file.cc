// See flight_file.h.
#include "trireme/run/flight_file.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using FlightJson = nlohmann::ordered_json;

constexpr int kMostRanks = 1 << 20;

// Reads the members of an object, each of a type and within limits.
class FlightReader {
 public:
  FlightReader(const FlightJson& object, std::string_view where) : object_(object), where_(where) {
    if (!object.is_object()) throw_error("{}: not an object of a flight record", where);
  }
  std::string text(const char* key) const {
    const FlightJson& value = at(key);
    if (!value.is_string()) refuse(key);
    return value.get<std::string>();
  }
  uint64_t whole(const char* key, uint64_t most = UINT64_MAX) const {
    const FlightJson& value = at(key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most) refuse(key);
    return value.get<uint64_t>();
  }
  double seconds(const char* key) const {
    const FlightJson& value = at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(key);
    return value.get<double>();
  }
  const FlightJson& list(const char* key) const {
    const FlightJson& value = at(key);
    if (!value.is_array()) refuse(key);
    return value;
  }
  bool has(const char* key) const { return object_.contains(key); }
  [[noreturn]] void refuse(const char* key) const {
    throw_error("{}: '{}' is missing or not what it can be; is it a file that trireme wrote?", where_, key);
  }

 private:
  const FlightJson& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse(key);
    return *found;
  }
  const FlightJson& object_;
  std::string_view where_;
};

FlightJson json_of(const comm::FlightEntry& entry) {
  FlightJson object{{"rank", entry.rank},
                    {"group", entry.group},
                    {"number", entry.number},
                    {"call", entry.call},
                    {"bytes", entry.bytes},
                    {"state", entry.state},
                    {"ago_seconds", entry.ago_seconds},
                    {"seconds", entry.seconds}};
  if (entry.others_at) object["others_at"] = *entry.others_at;
  return object;
}

comm::FlightEntry entry_of(const FlightReader& object, int ranks) {
  comm::FlightEntry entry{.rank = static_cast<int>(object.whole("rank", static_cast<uint64_t>(ranks - 1))),
                          .group = object.text("group"),
                          .number = object.whole("number"),
                          .call = object.text("call"),
                          .bytes = object.whole("bytes"),
                          .state = object.text("state"),
                          .ago_seconds = object.seconds("ago_seconds"),
                          .seconds = object.seconds("seconds"),
                          .others_at = {}};
  if (object.has("others_at")) entry.others_at = object.whole("others_at");
  return entry;
}

}  // namespace

std::string new_flight_file(const std::string& run) {
  namespace fs = std::filesystem;
  if (fs::is_directory(run)) return (fs::path(run) / kFlightFile).string();
  std::string path = (fs::temp_directory_path() / "trireme-flight-XXXXXX.json").string();
  const int file = mkstemps(path.data(), /*suffixlen=*/5);
  if (file < 0) throw_error("what the ranks did last can not be kept in {}: {}", path, std::strerror(errno));
  close(file);
  return path;
}

std::string render_flight(const FlightFile& flight) {
  const comm::FlightRecord& record = flight.record;
  FlightJson object{{"time", flight.time}, {"ranks", record.ranks}};
  object["ends"] = FlightJson::array();
  for (const auto& [rank, how] : record.ends) object["ends"].push_back({{"rank", rank}, {"how", how}});
  object["behind"] = record.behind;
  object["operations"] = FlightJson::array();
  for (const comm::FlightEntry& entry : record.entries) object["operations"].push_back(json_of(entry));
  return object.dump(1, ' ', false, FlightJson::error_handler_t::replace) + "\n";
}

FlightFile parse_flight(std::string_view json, std::string_view where) {
  const FlightJson parsed = FlightJson::parse(json, nullptr, /*allow_exceptions=*/false);
  const FlightReader object(parsed, where);
  FlightFile flight{.time = object.seconds("time"), .record = {}};
  comm::FlightRecord& record = flight.record;
  record.ranks = static_cast<int>(object.whole("ranks", kMostRanks));
  if (record.ranks == 0) object.refuse("ranks");
  const auto last = static_cast<uint64_t>(record.ranks - 1);
  for (const FlightJson& end : object.list("ends")) {
    const FlightReader reader(end, where);
    record.ends[static_cast<int>(reader.whole("rank", last))] = reader.text("how");
  }
  for (const FlightJson& sentence : object.list("behind")) {
    if (!sentence.is_string()) object.refuse("behind");
    record.behind.push_back(sentence.get<std::string>());
  }
  for (const FlightJson& entry : object.list("operations")) {
    record.entries.push_back(entry_of(FlightReader(entry, where), record.ranks));
    const size_t count = record.entries.size();
    if (count > 1 && record.entries[count - 2].rank > record.entries[count - 1].rank)
      object.refuse("operations");  // not by rank
  }
  return flight;
}

}  // namespace trireme

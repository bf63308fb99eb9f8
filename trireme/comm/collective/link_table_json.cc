// The file of link tables:
//   [{"transport": "shm", "memory": "transport", "ranks": 2,
//     "link": {"alpha_seconds": 2e-7, "beta_seconds_per_byte": 1e-10, "gamma_seconds_per_byte": 1e-11},
//     "timed": {"all_reduce": {"ring": [{"bytes": 8, "seconds": 2e-7}, …], …}, …}}, …]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/link_table.h"

namespace trireme::comm {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostRanks = 1 << 20;
constexpr double kMostBytes = 9e15;  // what a double counts exactly
constexpr double kMostSeconds = 1e6;

// One value and where it stands, so that errors can name the place.
class Reader {
 public:
  Reader(const Json& value, std::string where) : value_(value), where_(std::move(where)) {}

  bool has(const char* key) const { return value_.is_object() && value_.contains(key); }
  Reader at(const char* key) const {
    if (!has(key)) fail(fmt::format("has no \"{}\"", key));
    return {value_[key], where_ + "." + key};
  }
  std::string text() const {
    if (!value_.is_string()) fail("is not a text");
    return value_.get<std::string>();
  }
  double number(double most) const {
    const double number = value_.is_number() ? value_.get<double>() : -1;
    if (!(number >= 0 && number <= most)) {
      // Not dump() of anything else: it recurses into what may be nested without end.
      const std::string found = value_.is_number() ? value_.dump() : value_.type_name();
      fail(fmt::format("is {}, expected a number from 0 to {}", found, most));
    }
    return number;
  }
  int64_t whole(double least, double most) const {
    const double value = number(most);
    if (value != std::floor(value) || value < least)
      fail(fmt::format("is {}, expected a whole number from {}", value, least));
    return static_cast<int64_t>(value);
  }
  template <typename Body>
  void each(const Body& body) const {
    if (!value_.is_array() || value_.empty()) fail("is not a list with something in it");
    for (size_t i = 0; i < value_.size(); ++i) body(Reader(value_[i], fmt::format("{}[{}]", where_, i)));
  }
  template <typename Body>
  void each_key(const Body& body) const {
    if (!value_.is_object()) fail("is not an object");
    for (const auto& [key, value] : value_.items()) body(key, Reader(value, where_ + "." + key));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw_error("{} {}; measure the links again with: trireme bench collectives --calibrate FILE", where_,
                what);
  }

 private:
  const Json& value_;
  std::string where_;
};

Curve read_curve(const Reader& reader) {
  Curve points;
  reader.each([&](const Reader& each) {
    const auto bytes = static_cast<size_t>(each.at("bytes").whole(0, kMostBytes));
    if (!points.empty() && bytes <= points.back().bytes)
      each.fail(fmt::format("has {} bytes after {}, expected ascending sizes", bytes, points.back().bytes));
    points.push_back({bytes, each.at("seconds").number(kMostSeconds)});
  });
  return points;
}

MemoryKind read_memory(const Reader& reader) {
  const std::string text = reader.text();
  for (const MemoryKind kind : {MemoryKind::transport, MemoryKind::ordinary}) {
    if (name(kind) == text) return kind;
  }
  reader.fail("is not one of transport, ordinary");
}

// Whatever stands here may be chosen, so it must be something that can run.
void read_timed(const Reader& reader, LinkTable& table) {
  reader.each_key([&](const std::string& key, const Reader& operations) {
    const std::optional<Collective> collective = parse_collective(key);
    if (!collective) operations.fail("is not the name of a collective");
    const std::vector<Algorithm> known = algorithms_of(*collective);
    operations.each_key([&](const std::string& algorithm_key, const Reader& curve) {
      const std::optional<Algorithm> algorithm = parse_algorithm(algorithm_key);
      const bool can_run = algorithm == Algorithm::native ||
                           (algorithm && std::ranges::find(known, *algorithm) != known.end());
      if (!can_run) curve.fail(fmt::format("is not an algorithm of {}", key));
      table.timed[*collective][*algorithm] = read_curve(curve);
    });
  });
}

LinkTable read_table(const Reader& reader) {
  if (reader.has("inside"))
    reader.fail("comes from an older Trireme, which measured messages instead of whole collectives");
  LinkTable table;
  table.transport = reader.at("transport").text();
  table.memory = read_memory(reader.at("memory"));
  table.ranks = static_cast<int>(reader.at("ranks").whole(1, kMostRanks));
  const Reader link = reader.at("link");
  table.link = {.alpha_seconds = link.at("alpha_seconds").number(kMostSeconds),
                .beta_seconds_per_byte = link.at("beta_seconds_per_byte").number(kMostSeconds),
                .gamma_seconds_per_byte = link.at("gamma_seconds_per_byte").number(kMostSeconds)};
  read_timed(reader.at("timed"), table);
  return table;
}

}  // namespace

std::string to_json(std::span<const LinkTable> tables) {
  Json list = Json::array();
  for (const LinkTable& table : tables) {
    Json timed = Json::object();
    for (const auto& [collective, operations] : table.timed) {
      for (const auto& [algorithm, curve] : operations) {
        Json& points = timed[std::string(name(collective))][std::string(name(algorithm))];
        for (const TimedPoint& point : curve)
          points.push_back({{"bytes", point.bytes}, {"seconds", point.seconds}});
      }
    }
    list.push_back({{"transport", table.transport},
                    {"memory", name(table.memory)},
                    {"ranks", table.ranks},
                    {"link",
                     {{"alpha_seconds", table.link.alpha_seconds},
                      {"beta_seconds_per_byte", table.link.beta_seconds_per_byte},
                      {"gamma_seconds_per_byte", table.link.gamma_seconds_per_byte}}},
                    {"timed", std::move(timed)}});
  }
  return list.dump(1) + "\n";
}

std::vector<LinkTable> parse_link_tables(std::string_view json, std::string_view origin) {
  const Json list = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (list.is_discarded()) Reader(list, std::string(origin)).fail("is not JSON");
  std::vector<LinkTable> tables;
  Reader(list, std::string(origin)).each([&](const Reader& each) { tables.push_back(read_table(each)); });
  return tables;
}

std::vector<LinkTable> read_link_tables(const std::string& path) {
  return parse_link_tables(read_input_file(path, size_t{1} << 26, "the file that calibration wrote"), path);
}

void write_link_tables(const std::string& path, std::span<const LinkTable> tables) {
  std::ofstream file(path, std::ios::binary);
  file << to_json(tables);
  file.close();
  if (!file) throw_error("{}: cannot be written; is the folder there, and the disk not full?", path);
}

}  // namespace trireme::comm

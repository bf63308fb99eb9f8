// The file of link models:
//   [{"transport": "shm", "memory": "transport", "ranks": 2, "cores": 2, "ports": "one", "operation_seconds":
//   1e-7,
//     "inside": {"message": [{"bytes": 8, "seconds": 2e-7}, …], "gap": […], "exchange": […]},
//     "across": {…}, "reduce": […], "add": […], "vectors": {"message": […], "exchange": […], "add":
//     […], "reduce": […], "hand_on": […]},
//     "timed": {"all_reduce": {"native": […]}},
//     "preferred": {"all_reduce": [{"bytes": 8, "algorithm": "native", "segment_bytes": 0}, …]}}, …]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "trireme/base/enum_name.h"
#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/link_model.h"

namespace trireme::comm {
namespace {

using Json = nlohmann::ordered_json;

constexpr EnumNames<3> kPorts = {"one", "one_each_way", "unlimited"};
constexpr double kMostRanks = 1 << 20;
constexpr double kMostBytes = 9e15;  // what a double counts exactly
constexpr double kMostSeconds = 1e6;

Json curve_json(const Curve& curve) {
  Json list = Json::array();
  for (const CurvePoint& point : curve.points()) {
    list.push_back({{"bytes", point.bytes}, {"seconds", point.seconds}});
  }
  return list;
}

void put(Json& object, const char* key, const Curve& curve) {
  if (!curve.empty()) object[key] = curve_json(curve);
}

Json link_json(const LinkCurves& link) {
  Json object = {{"message", curve_json(link.message)}};
  put(object, "gap", link.gap);
  put(object, "exchange", link.exchange);
  return object;
}

// One value and where it stands, so that what is wrong can be said.
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
  int64_t whole(double most) const {
    const double value = number(most);
    if (value != std::floor(value)) fail(fmt::format("is {}, expected a whole number", value));
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
    throw_error("{} {}; measure the links again with: trireme bench collectives --calibrate", where_, what);
  }

 private:
  const Json& value_;
  std::string where_;
};

Curve read_curve(const Reader& reader) {
  std::vector<CurvePoint> points;
  reader.each([&](const Reader& each) {
    const auto bytes = static_cast<size_t>(each.at("bytes").whole(kMostBytes));
    if (!points.empty() && bytes <= points.back().bytes) {
      each.fail(fmt::format("has {} bytes after {}, expected more and more", bytes, points.back().bytes));
    }
    points.push_back({bytes, each.at("seconds").number(kMostSeconds)});
  });
  return Curve(std::move(points));
}

Curve read_optional(const Reader& reader, const char* key) {
  return reader.has(key) ? read_curve(reader.at(key)) : Curve();
}

LinkCurves read_link(const Reader& reader) {
  return {.message = read_curve(reader.at("message")),
          .gap = read_optional(reader, "gap"),
          .exchange = read_optional(reader, "exchange")};
}

Ports read_ports(const Reader& reader) {
  if (const auto ports = enum_named<Ports>(kPorts, reader.text())) return *ports;
  reader.fail("is not one of one, one_each_way, unlimited");
}

MemoryKind read_memory(const Reader& reader) {
  const std::string text = reader.text();
  for (const MemoryKind kind : {MemoryKind::transport, MemoryKind::ordinary}) {
    if (name(kind) == text) return kind;
  }
  reader.fail("is not one of transport, ordinary");
}

Collective collective_of(const std::string& key, const Reader& reader) {
  const std::optional<Collective> collective = parse_collective(key);
  if (!collective) reader.fail("is not the name of a collective");
  return *collective;
}

void read_timed(const Reader& reader, LinkModel& model) {
  reader.each_key([&](const std::string& key, const Reader& operations) {
    const Collective collective = collective_of(key, operations);
    operations.each_key([&](const std::string& algorithm_key, const Reader& curve) {
      const std::optional<Algorithm> algorithm = parse_algorithm(algorithm_key);
      if (!algorithm) curve.fail("is not the name of an algorithm");
      model.timed[collective][*algorithm] = read_curve(curve);
    });
  });
}

void read_preferred(const Reader& reader, LinkModel& model) {
  reader.each_key([&](const std::string& key, const Reader& list) {
    const Collective collective = collective_of(key, list);
    list.each([&](const Reader& each) {
      const Reader text = each.at("algorithm");
      const std::optional<Algorithm> algorithm = parse_algorithm(text.text());
      // Whoever asks for the automatic choice is not sent round in a circle, nor to what cannot be run.
      const std::vector<Algorithm> known = algorithms_of(collective);
      const bool can_run = algorithm == Algorithm::native ||
                           (algorithm && std::ranges::find(known, *algorithm) != known.end());
      if (!can_run) text.fail(fmt::format("is not an algorithm of {}", name(collective)));
      const auto segment = static_cast<size_t>(each.at("segment_bytes").whole(kMostBytes));
      if (segment == 0 && algorithm != Algorithm::native) each.fail("has segments of no bytes");
      model.preferred[collective].push_back(
          {static_cast<size_t>(each.at("bytes").whole(kMostBytes)), *algorithm, segment});
    });
  });
}

LinkModel read_model(const Reader& reader) {
  LinkModel model;
  model.transport = reader.at("transport").text();
  model.ranks = static_cast<int>(reader.at("ranks").whole(kMostRanks));
  if (reader.has("cores")) model.cores = static_cast<int>(reader.at("cores").whole(kMostRanks));
  if (reader.has("memory")) model.memory = read_memory(reader.at("memory"));
  if (reader.has("ports")) model.ports = read_ports(reader.at("ports"));
  if (reader.has("operation_seconds")) {
    model.operation_seconds = reader.at("operation_seconds").number(kMostSeconds);
  }
  model.inside = read_link(reader.at("inside"));
  if (reader.has("across")) model.across = read_link(reader.at("across"));
  model.reduce = read_optional(reader, "reduce");
  model.add = read_optional(reader, "add");
  if (reader.has("vectors")) {
    const Reader vectors = reader.at("vectors");
    model.vectors = {.message = read_optional(vectors, "message"),
                     .exchange = read_optional(vectors, "exchange"),
                     .add = read_optional(vectors, "add"),
                     .reduce = read_optional(vectors, "reduce"),
                     .hand_on = read_optional(vectors, "hand_on")};
  }
  if (reader.has("timed")) read_timed(reader.at("timed"), model);
  if (reader.has("preferred")) read_preferred(reader.at("preferred"), model);
  return model;
}

}  // namespace

std::string to_json(std::span<const LinkModel> models) {
  Json list = Json::array();
  for (const LinkModel& model : models) {
    Json object = {{"transport", model.transport},
                   {"memory", name(model.memory)},
                   {"ranks", model.ranks},
                   {"cores", model.cores},
                   {"ports", kPorts[static_cast<size_t>(model.ports)]},
                   {"operation_seconds", model.operation_seconds},
                   {"inside", link_json(model.inside)}};
    if (!model.across.message.empty()) object["across"] = link_json(model.across);
    put(object, "reduce", model.reduce);
    put(object, "add", model.add);
    Json vectors = Json::object();
    put(vectors, "message", model.vectors.message);
    put(vectors, "exchange", model.vectors.exchange);
    put(vectors, "add", model.vectors.add);
    put(vectors, "reduce", model.vectors.reduce);
    put(vectors, "hand_on", model.vectors.hand_on);
    if (!vectors.empty()) object["vectors"] = std::move(vectors);
    for (const auto& [collective, operations] : model.timed) {
      for (const auto& [algorithm, curve] : operations) {
        object["timed"][std::string(name(collective))][std::string(name(algorithm))] = curve_json(curve);
      }
    }
    for (const auto& [collective, preferences] : model.preferred) {
      Json& ways = object["preferred"][std::string(name(collective))];
      for (const Preference& way : preferences) {
        ways.push_back(
            {{"bytes", way.bytes}, {"algorithm", name(way.algorithm)}, {"segment_bytes", way.segment_bytes}});
      }
    }
    list.push_back(std::move(object));
  }
  return list.dump(1) + "\n";
}

std::vector<LinkModel> parse_link_models(std::string_view json, std::string_view origin) {
  const Json list = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (list.is_discarded()) Reader(list, std::string(origin)).fail("is not JSON");
  std::vector<LinkModel> models;
  Reader(list, std::string(origin)).each([&](const Reader& each) { models.push_back(read_model(each)); });
  return models;
}

std::vector<LinkModel> read_link_models(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 26;
  return parse_link_models(read_input_file(path, kMostBytes, "the file that calibration wrote"), path);
}

void write_link_models(const std::string& path, std::span<const LinkModel> models) {
  std::ofstream file(path, std::ios::binary);
  file << to_json(models);
  file.close();
  if (!file) throw_error("{}: cannot be written; is the folder there, and the disk not full?", path);
}

}  // namespace trireme::comm

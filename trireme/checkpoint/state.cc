// JSON of a checkpoint's small files; see state.h. Checksums are hexadecimal strings, since many JSON
// readers keep numbers as doubles and would round them.
#include "trireme/checkpoint/state.h"

#include <charconv>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/json.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;  // of state.json; raised when an older reader could no longer understand it

json parse_object(std::string_view text, std::string_view where) {
  json object = parse_json(text, where);
  if (!object.is_object()) throw_error("{}: not a JSON object; the file is damaged", where);
  return object;
}

template <typename T>
T number(const json& object, const char* key, std::string_view where) {
  const auto found = object.find(key);
  const bool fits = found != object.end() && (std::is_floating_point_v<T> ? found->is_number()
                                              : std::is_unsigned_v<T>     ? found->is_number_unsigned()
                                                                          : found->is_number_integer());
  if (!fits) {
    throw_error(
        "{}: '{}' is {}, expected a number", where, key,
        found == object.end() ? "missing" : found->dump(-1, ' ', true, json::error_handler_t::replace));
  }
  return found->get<T>();
}

int64_t count(const json& object, const char* key, std::string_view where) {
  const uint64_t value = number<uint64_t>(object, key, where);
  if (value > INT64_MAX) throw_error("{}: '{}' is {}, which is too large", where, key, value);
  return static_cast<int64_t>(value);
}

std::map<std::string, std::string> texts(const json& object, const char* key, std::string_view where) {
  std::map<std::string, std::string> result;
  const auto found = object.find(key);
  if (found == object.end()) return result;
  if (!found->is_object()) throw_error("{}: '{}' is not an object", where, key);
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) throw_error("{}: '{}' of '{}' is not a text", where, name, key);
    result[name] = value.get<std::string>();
  }
  return result;
}

}  // namespace

std::string render_state(const TrainState& state) {
  const json extra = json::parse(state.extra, nullptr, false);
  if (!extra.is_object())
    throw_error("the extra state of a checkpoint is not a JSON object: {}", state.extra);
  TRIREME_CHECK(std::isfinite(state.loss_scale));
  TRIREME_CHECK(state.step >= 0);
  const json object = {{"format", kFormat},
                       {"step", state.step},
                       {"seed", state.seed},
                       {"data", {{"epoch", state.data.epoch}, {"index", state.data.index}}},
                       {"loss_scale", state.loss_scale},
                       {"scale_age", state.scale_age},
                       {"made_with", state.made_with},
                       {"extra", extra}};
  return object.dump(2) + "\n";
}

TrainState parse_state(std::string_view text, std::string_view where) {
  const json object = parse_object(text, where);
  const int64_t format = count(object, "format", where);
  if (format != kFormat) {
    throw_error("{}: format {}, expected {}; written by another version of Trireme", where, format, kFormat);
  }
  const auto data = object.find("data"), extra = object.find("extra");
  if (data == object.end() || !data->is_object()) throw_error("{}: 'data' is not an object", where);
  if (extra == object.end() || !extra->is_object()) throw_error("{}: 'extra' is not an object", where);
  return {.step = count(object, "step", where),
          .seed = number<uint64_t>(object, "seed", where),
          .data = {count(*data, "epoch", where), count(*data, "index", where)},
          .loss_scale = number<double>(object, "loss_scale", where),
          .scale_age = count(object, "scale_age", where),
          .made_with = texts(object, "made_with", where),
          .extra = extra->dump()};
}

std::string render_checksums(const Checksums& checksums) {
  json object = json::object();
  for (const auto& [name, digest] : checksums) {
    object[name] = {{"bytes", digest.bytes}, {"xxh64", fmt::format("{:016x}", digest.xxh64)}};
  }
  return object.dump(2) + "\n";
}

Checksums parse_checksums(std::string_view text, std::string_view where) {
  Checksums checksums;
  const json object = parse_object(text, where);
  for (const auto& [name, entry] : object.items()) {
    const auto hash = entry.is_object() ? entry.find("xxh64") : entry.end();
    if (!entry.is_object() || hash == entry.end() || !hash->is_string()) {
      throw_error("{}: '{}' has no xxh64; the file is damaged", where, name);
    }
    const std::string digits = hash->get<std::string>();
    FileDigest digest{.bytes = number<uint64_t>(entry, "bytes", where)};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), digest.xxh64, 16);
    if (digits.size() != 16 || error != std::errc{} || end != digits.data() + digits.size()) {
      throw_error("{}: the xxh64 of '{}' is not 16 hexadecimal digits", where, name);
    }
    checksums[name] = digest;
  }
  // Nothing guards this file but itself: one spelling only, so that any changed byte shows.
  if (render_checksums(checksums) != text)
    throw_error("{}: not as it was written; the file is damaged", where);
  return checksums;
}

}  // namespace trireme

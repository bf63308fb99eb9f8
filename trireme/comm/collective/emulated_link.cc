// See emulated_link.h. Units are always said: what 50 means in one setting is not what it means in the other.
#include "trireme/comm/collective/emulated_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::comm {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kTimes[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
constexpr Unit kRates[] = {{"Kbit", 1e3 / 8}, {"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8}};
constexpr double kLongest = 60;                    // seconds; more than that is a link that is cut
constexpr double kSlowest = 1e3, kFastest = 1e12;  // bytes a second

double number_with_unit(std::string_view setting, std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit =
      error == std::errc() ? text.substr(static_cast<size_t>(end - text.data())) : "";
  for (const Unit& known : units) {
    if (error == std::errc() && unit == known.name) return number * known.factor;
  }
  std::vector<std::string> names;
  for (const Unit& known : units) names.emplace_back(known.name);
  throw_error("--link has {}={}; a number and a unit expected, one of {}, without a space", setting, text,
              join(names, ", "));
}

double checked(std::string_view setting, std::string_view text, double value, double least, double most,
               std::string_view range) {
  if (!(value >= least && value <= most)) throw_error("--link has {}={}; {} expected", setting, text, range);
  return value;
}

void read_setting(std::string_view part, EmulatedLink& link) {
  const size_t equals = part.find('=');
  const std::string key(part.substr(0, equals));
  const std::string_view text = equals == std::string_view::npos ? "" : part.substr(equals + 1);
  const auto time = [&] {
    return checked(key, text, number_with_unit(key, text, kTimes), 0, kLongest, "from 0 to 60s");
  };
  if (equals != std::string_view::npos && key == "latency") {
    link.latency_seconds = time();
  } else if (equals != std::string_view::npos && key == "jitter") {
    link.jitter_seconds = time();
  } else if (equals != std::string_view::npos && key == "bandwidth") {
    link.bytes_per_second =
        checked(key, text, number_with_unit(key, text, kRates), kSlowest, kFastest, "from 8Kbit to 8000Gbit");
  } else {
    std::vector<std::string> known = {"latency=…", "bandwidth=…", "jitter=…"};
    for (const EmulatedLink& preset : emulated_links()) known.push_back(preset.name);
    throw_error("--link has '{}'; {}", part, suggestion(part, known));
  }
}

std::string time_text(double seconds) {
  for (const Unit& unit : kTimes) {
    if (seconds < 1000 * unit.factor || unit.factor == 1)
      return fmt::format("{:g} {}", seconds / unit.factor, unit.name);
  }
  return "";
}
std::string rate_text(double bytes_per_second) {
  for (const Unit& unit : kRates) {
    if (bytes_per_second < 1000 * unit.factor || unit.name == "Gbit")
      return fmt::format("{:g} {}/s", bytes_per_second / unit.factor, unit.name);
  }
  return "";
}

}  // namespace

Link EmulatedLink::costs() const {
  return {.alpha_seconds = latency_seconds + jitter_seconds / 2,
          .beta_seconds_per_byte = bytes_per_second > 0 ? 1 / bytes_per_second : 0};
}

const std::vector<EmulatedLink>& emulated_links() {
  static const std::vector<EmulatedLink> links = {
      {.latency_seconds = 1e-6, .bytes_per_second = 100e9 / 8, .name = "cluster"},
      {.latency_seconds = 20e-6, .bytes_per_second = 25e9 / 8, .name = "datacenter"},
      {.latency_seconds = 500e-6, .bytes_per_second = 1e9 / 8, .name = "office"},
      {.latency_seconds = 20e-3, .bytes_per_second = 100e6 / 8, .name = "home"},
      {.latency_seconds = 200e-3, .bytes_per_second = 100e6 / 8, .name = "continents"}};
  return links;
}

EmulatedLink parse_emulated_link(std::string_view text) {
  const std::vector<std::string> parts = split(text, ',');
  const auto preset = std::ranges::find(emulated_links(), parts.empty() ? "" : parts[0], &EmulatedLink::name);
  EmulatedLink link = preset == emulated_links().end() ? EmulatedLink() : *preset;
  for (size_t i = preset == emulated_links().end() ? 0 : 1; i < parts.size(); ++i)
    read_setting(parts[i], link);
  return link;
}

std::string to_text(const EmulatedLink& link) {
  std::string text = link.name.empty() ? "" : link.name + ": ";
  text += "latency " + time_text(link.latency_seconds);
  if (link.jitter_seconds > 0) text += ", jitter " + time_text(link.jitter_seconds);
  if (link.bytes_per_second > 0) text += ", " + rate_text(link.bytes_per_second);
  return text;
}

}  // namespace trireme::comm

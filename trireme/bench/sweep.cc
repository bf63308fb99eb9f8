// See sweep.h.
#include "trireme/bench/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::bench {
namespace {

std::vector<std::string> keys_of(const std::vector<Swept>& swept) {
  std::vector<std::string> keys;
  for (const Swept& one : swept) keys.insert(keys.end(), one.keys.begin(), one.keys.end());
  return keys;
}

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int64_t count_in(const std::string& key, const std::string& text) {
  const std::optional<double> value = number_in(text);
  if (!value || *value != std::floor(*value) || *value < 1 || *value > 1 << 20)
    throw_error("--sweep: {} is '{}', expected a whole number from 1 to {}", key, text, 1 << 20);
  return static_cast<int64_t>(*value);
}

bool is_setting(const std::string& key) {
  return key.find('.') != std::string::npos;
}

// The plan with other sizes of axes and other values of keys.
Plan changed(const Plan& plan, const std::vector<std::pair<std::string, std::string>>& changes) {
  if (changes.empty()) return plan;
  nlohmann::json json = nlohmann::json::parse(to_json(plan));
  std::vector<Axis> axes = plan.mesh.axes();
  for (const auto& [key, value] : changes) {
    if (const int at = plan.mesh.find(key); at >= 0) {
      axes[static_cast<size_t>(at)].size = static_cast<int>(count_in(key, value));
      json["mesh"] = to_string(Mesh(axes));
    } else {
      nlohmann::json parsed = nlohmann::json::parse(value, nullptr, false);
      json[key] = parsed.is_discarded() ? nlohmann::json(value) : std::move(parsed);
    }
  }
  return parse_plan(json.dump(), "the plan of this point");
}

void check(const SweepBase& base, const std::vector<Swept>& swept) {
  std::vector<std::string> known = plan_keys();
  known.emplace_back("hosts");
  for (const Axis& axis : base.plan.mesh.axes()) known.push_back(axis.name);
  const std::vector<std::string> keys = keys_of(swept);
  for (auto key = keys.begin(); key != keys.end(); ++key) {
    if (std::find(keys.begin(), key, *key) != key) throw_error("--sweep: {} comes twice", *key);
    if (base.plan.mesh.find(*key) >= 0 && std::ranges::find(keys, "mesh") != keys.end())
      throw_error("--sweep: both mesh and its axis {} change; one of them expected", *key);
    if (!is_setting(*key) && std::ranges::find(known, *key) == known.end())
      throw_error(
          "--sweep: '{}' is neither a setting, like train.batch, nor hosts, a key of the plan or an axis of "
          "its mesh '{}'; {}",
          *key, to_string(base.plan.mesh), suggestion(*key, known));
  }
}

SweepPoint point_of(const SweepBase& base, const std::vector<std::string>& keys,
                    std::vector<std::string> values) {
  SweepPoint point{.values = std::move(values)};
  try {
    StepSource source = base.source;
    Cluster cluster = base.cluster;
    std::vector<std::pair<std::string, std::string>> changes;
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string &key = keys[i], &value = point.values[i];
      if (is_setting(key))
        source.settings.push_back(key + "=" + value);
      else if (key == "hosts")
        cluster = with_hosts(std::move(cluster), static_cast<int>(count_in(key, value)));
      else
        changes.emplace_back(key, value);
    }
    point.plan = changed(base.plan, changes);
    point.setup = set_up_step(source, point.plan);
    point.prediction = predict(point.setup, point.plan, cluster, base.options);
  } catch (const Error& error) {
    point.refusal = error.what();
  }
  return point;
}

// Where values of a key stand: at their logarithms where they are far apart, one after another where they are
// no numbers.
std::map<std::string, double> places_of(const Swept& first) {
  std::map<std::string, double> places;
  double least = HUGE_VAL, most = 0;
  bool numbers = true;
  for (const std::vector<std::string>& values : first.values) {
    const std::optional<double> number = number_in(values[0]);
    numbers = numbers && number.has_value();
    least = std::min(least, number.value_or(0));
    most = std::max(most, number.value_or(0));
  }
  for (const std::vector<std::string>& values : first.values) {
    const double in_order = static_cast<double>(places.size());
    const double number = numbers ? *number_in(values[0]) : in_order;
    places.emplace(values[0], numbers && least > 0 && most >= 4 * least ? std::log2(number) : number);
  }
  return places;
}

std::string short_number(double value) {
  return fmt::format("{:.3g}", value);
}

std::string with_unit(double value) {
  return value >= 1e9   ? fmt::format("{:.3g}G", value / 1e9)
         : value >= 1e6 ? fmt::format("{:.3g}M", value / 1e6)
         : value >= 1e3 ? fmt::format("{:.3g}k", value / 1e3)
                        : short_number(value);
}

constexpr SweepFigure kFigures[] = {
    {"step", "seconds of a step", LineChart::Scale::kLog, short_number,
     [](const SweepPoint& point) { return point.prediction->report.step_seconds; }},
    {"rate", "{} per second", LineChart::Scale::kLog, with_unit,
     [](const SweepPoint& point) { return point.prediction->units_per_second; }},
    {"mfu", "model FLOP utilisation, %", LineChart::Scale::kLinear, short_number,
     [](const SweepPoint& point) {
       return 100 * point.prediction->utilisation(point.prediction->model_flops);
     }},
    {"memory", "memory of the fullest rank, GiB", LineChart::Scale::kLinear, short_number,
     [](const SweepPoint& point) {
       return static_cast<double>(point.prediction->report.fullest().memory.peak_bytes) / (1 << 30);
     }},
};

}  // namespace

Swept parse_swept(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw_error("--sweep '{}': expected KEY=VALUE,VALUE,… or KEY,KEY=VALUE:VALUE,VALUE:VALUE,…", text);
  Swept result{.keys = split(text.substr(0, equals), ','), .values = {}};
  for (const std::string& value : split(text.substr(equals + 1), ',')) {
    std::vector<std::string> of_point =
        result.keys.size() > 1 ? split(value, ':') : std::vector<std::string>{value};
    if (of_point.size() != result.keys.size() || std::ranges::count(of_point, "") > 0)
      throw_error("--sweep '{}': '{}' has not one value for each of {}", text, value,
                  join(result.keys, ", "));
    result.values.push_back(std::move(of_point));
  }
  return result;
}

bool SweepPoint::fits() const {
  const sim::RankReport& fullest = prediction->report.fullest();
  return static_cast<double>(fullest.memory.peak_bytes) <= fullest.device->memory_bytes;
}

std::vector<SweepPoint> sweep(const SweepBase& base, const std::vector<Swept>& swept,
                              const std::function<void(const SweepPoint&)>& on_point) {
  check(base, swept);
  const std::vector<std::string> keys = keys_of(swept);
  std::vector<std::vector<std::string>> combinations = {{}};
  for (const Swept& one : swept) {
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& begun : combinations) {
      for (const std::vector<std::string>& values : one.values) {
        longer.push_back(begun);
        longer.back().insert(longer.back().end(), values.begin(), values.end());
      }
    }
    combinations = std::move(longer);
  }
  std::vector<SweepPoint> points;
  for (std::vector<std::string>& values : combinations) {
    points.push_back(point_of(base, keys, std::move(values)));
    on_point(points.back());
  }
  return points;
}

std::vector<std::string> sweep_figure_names() {
  std::vector<std::string> names;
  for (const SweepFigure& figure : kFigures) names.emplace_back(figure.name);
  return names;
}

const SweepFigure& sweep_figure(const std::string& name) {
  const auto* const found = std::ranges::find(kFigures, std::string_view(name), &SweepFigure::name);
  if (found == std::end(kFigures))
    throw_error("there is no figure '{}'; {}", name, suggestion(name, sweep_figure_names()));
  return *found;
}

LineChart sweep_chart(const std::vector<Swept>& swept, const std::vector<SweepPoint>& points,
                      const SweepFigure& figure) {
  const std::vector<std::string> keys = keys_of(swept);
  const std::map<std::string, double> places = places_of(swept.front());
  LineChart chart{.x_label = keys[0], .y_scale = figure.scale, .y_text = figure.text};
  for (const auto& [value, place] : places) chart.x_marks.emplace_back(place, value);
  std::ranges::sort(chart.x_marks);
  std::vector<std::string> names;
  std::string_view unit = "units";
  for (const SweepPoint& point : points) {
    std::string name;
    for (size_t i = swept.front().keys.size(); i < keys.size(); ++i)
      name += fmt::format("{}{}={}", name.empty() ? "" : ", ", keys[i], point.values[i]);
    auto at = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    if (at == names.size()) {
      names.push_back(name);
      chart.lines.push_back({.points = {}, .colour = at});
      if (!name.empty()) chart.legend.push_back({name, at});
    }
    if (!point.prediction) continue;
    chart.lines[at].points.push_back({places.at(point.values[0]), figure.of(point)});
    unit = point.setup.unit();
  }
  for (LineChart::Line& line : chart.lines) std::ranges::sort(line.points, {}, &LineChart::Point::x);
  chart.y_label = fmt::format(fmt::runtime(figure.label), unit);
  return chart;
}

}  // namespace trireme::bench

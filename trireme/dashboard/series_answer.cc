// See answers.h. Numbers are written by hand: a chart of fifty runs has a quarter of a million.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "trireme/dashboard/answers.h"
#include "trireme/dashboard/arguments_of.h"
#include "trireme/dashboard/grid.h"
#include "trireme/dashboard/rank_waits.h"

namespace trireme::dashboard {
namespace {

constexpr size_t kMostSeries = 4096;

struct Extent {
  double from = HUGE_VAL, to = -HUGE_VAL;
  bool empty() const { return from > to; }
  void add(std::span<const double> x) {
    for (const double value : x) {
      if (!std::isfinite(value)) continue;
      from = std::min(from, value);
      to = std::max(to, value);
    }
  }
};

// Seven digits: more than a screen has rows.
void write_numbers(fmt::memory_buffer& out, const std::vector<double>& values) {
  out.push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out.push_back(',');
    if (std::isfinite(values[i])) {
      fmt::format_to(std::back_inserter(out), "{:.7g}", values[i]);
    } else {
      out.append(std::string_view("null"));
    }
  }
  out.push_back(']');
}

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_grid(fmt::memory_buffer& out, const Extent& extent, const Grid& grid) {
  fmt::format_to(std::back_inserter(out), R"({{"from":{},"to":{},"width":{},"first":{},"cells":{})",
                 extent.from, extent.to, grid.width, grid.first, grid.cells);
}

std::vector<std::string> list_of(const Request& request, std::string_view name) {
  const std::string_view text = request.argument(name);
  return text.empty() ? std::vector<std::string>() : split(text, ',');
}

// Steps and samples are whole, and seconds of no use below microseconds.
double least_width(std::string_view x) {
  return x == "step" || x == "samples" ? 1 : std::exp2(-20);
}

struct Series {
  size_t run;
  std::string name;
  Curve curve;
};

}  // namespace

std::string series_answer(Runs& runs, const Request& request) {
  const std::string x = request.argument("x").empty() ? "step" : std::string(request.argument("x"));
  if (x != "step" && x != "samples" && x != "seconds" && x != "time")
    throw_error("'x' must be step, samples, seconds or time");
  std::vector<Series> all;
  Extent extent;
  const std::vector<std::string> names = list_of(request, "names");
  const std::vector<std::string> wanted = list_of(request, "runs");
  if (wanted.size() * names.size() > kMostSeries)
    throw_error("{} curves asked for, of at most {}", wanted.size() * names.size(), kMostSeries);
  // What is asked for may be more than is kept; each log is a part of the map until all are cut.
  for (const std::string& number : wanted) {
    const size_t run = run_number(number, runs);
    const NumberLog& log = runs.metrics(run);
    extent.add(log.column(x));
    for (const std::string& name : names) all.push_back({run, name, {}});
  }
  if (extent.empty()) return R"({"from":0,"to":0,"width":1,"first":0,"cells":0,"slots":1,"series":[]})";
  const double from = number_of(request, "from", extent.from), to = number_of(request, "to", extent.to);
  const Grid grid = grid_over(from, std::max(from, to), columns_of(request), least_width(x));
  const auto curve_of = [&](const Series& series) -> Curve {
    const NumberLog& log = runs.metrics(series.run);
    return {log.column(x), log.column(series.name)};
  };
  int slots = 1;
  for (const Series& series : all) {
    if (slots == 1 && most_points_in_a_cell(curve_of(series), grid) > 1) slots = kSlots;
  }
  fmt::memory_buffer out;
  write_grid(out, extent, grid);
  fmt::format_to(std::back_inserter(out), R"(,"slots":{},"series":[)", slots);
  bool first = true;
  for (const Series& series : all) {
    const Curve curve = curve_of(series);
    if (curve.y.empty()) continue;
    fmt::format_to(std::back_inserter(out), R"({}{{"run":{},"name":{},"values":)", first ? "" : ",",
                   series.run, json_text(series.name));
    first = false;
    write_numbers(out, cut(curve, grid, slots));
    if (!request.argument("means").empty()) {
      out.append(std::string_view(R"(,"means":)"));
      write_numbers(out, means(curve, grid));
    }
    out.push_back('}');
  }
  out.append(std::string_view("]}"));
  return fmt::to_string(out);
}

std::string ranks_answer(Runs& runs, const Request& request) {
  const std::map<int, NumberLog>& ranks = runs.ranks(run_number(request.argument("run"), runs));
  Extent extent;
  for (const auto& [rank, log] : ranks) extent.add(log.column("step"));
  if (extent.empty()) return R"({"from":0,"to":0,"width":1,"first":0,"cells":0,"ranks":[]})";
  const double from = number_of(request, "from", extent.from), to = number_of(request, "to", extent.to);
  const Grid grid = grid_over(from, std::max(from, to), columns_of(request), 1);
  fmt::memory_buffer out;
  write_grid(out, extent, grid);
  out.append(std::string_view(R"(,"ranks":[)"));
  bool first = true;
  const WaitsOfRanks waits = waits_of(ranks, from, std::max(from, to));
  for (const auto& [rank, log] : ranks) {
    fmt::format_to(std::back_inserter(out), R"({}{{"rank":{})", first ? "" : ",", rank);
    first = false;
    const auto write = [&](const char* name, std::span<const double> values) {
      fmt::format_to(std::back_inserter(out), R"(,"{}":)", name);
      const size_t rows = std::min(values.size(), log.column("step").size());
      write_numbers(out, means({log.column("step").first(rows), values.first(rows)}, grid));
    };
    for (const char* name : {"seconds", "comm_seconds", "bytes_sent"}) write(name, log.column(name));
    write("waiting", waits.ranks.at(rank).seconds);
    const double share = static_cast<double>(waits.ranks.at(rank).rows_last) /
                         static_cast<double>(std::max<int64_t>(1, waits.rows));
    fmt::format_to(std::back_inserter(out), R"(,"last":{}}})", share);
  }
  out.append(std::string_view("]}"));
  return fmt::to_string(out);
}

}  // namespace trireme::dashboard

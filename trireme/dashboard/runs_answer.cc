// See answers.h.
#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/dashboard/answers.h"
#include "trireme/dashboard/arguments_of.h"
#include "trireme/dashboard/timelines.h"
#include "trireme/run/config.h"

namespace trireme::dashboard {
namespace {

using Json = nlohmann::ordered_json;

// Names and texts of runs need not be UTF-8.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void put(Json& object, const char* name, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) object[name] = *value;
}

Json row_of(size_t number, const Runs::Run& run, const std::set<std::string>& varying) {
  const RunSummary& summary = run.summary;
  Json row{{"run", number}, {"name", run.name}};
  if (run.gone) {
    row["gone"] = true;
    return row;
  }
  row["state"] = summary.state;
  row["family"] = summary.family;
  row["unit"] = summary.unit;
  row["ranks"] = summary.ranks;
  row["host"] = summary.host;
  row["device"] = summary.device;
  put(row, "parameters", summary.parameters);
  put(row, "step", summary.step);
  put(row, "steps", summary.steps);
  put(row, "loss", summary.loss);
  put(row, "validation_loss", summary.validation_loss);
  put(row, "rate", summary.rate);
  put(row, "mfu", summary.mfu);
  put(row, "seconds", summary.seconds);
  put(row, "started", summary.started);
  put(row, "changed", summary.changed);
  Json config = Json::object();
  for (const std::string& name : varying) {
    if (const auto found = summary.config.find(name); found != summary.config.end())
      config[name] = found->second;
  }
  row["config"] = std::move(config);
  return row;
}

}  // namespace

std::string runs_answer(const Runs& runs, const Request& request) {
  const double since = number_of(request, "since", -1);
  Json rows = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    if (static_cast<double>(runs[i].changed) > since) rows.push_back(row_of(i, runs[i], runs.varying()));
  }
  return text_of({{"version", runs.version()},
                  {"count", runs.size()},
                  {"keys", runs.varying()},
                  {"runs", std::move(rows)}});
}

std::string run_answer(Runs& runs, const Request& request) {
  const size_t number = run_number(request.argument("run"), runs);
  static const std::map<std::string, std::string> defaults = flat_toml(config_toml(Config()));
  Json answer = read_details(runs[number].folder);
  answer["defaults"] = defaults;
  answer["names"] = runs.metrics(number).names();
  answer["rank_logs"] = runs.ranks(number).size();
  return text_of(answer);
}

std::string timeline_answer(const Runs& runs, const Request& request) {
  return text_of(read_timelines(runs[run_number(request.argument("run"), runs)].folder));
}

}  // namespace trireme::dashboard

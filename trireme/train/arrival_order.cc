// See arrival_order.h.
#include "trireme/train/arrival_order.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme {
namespace {

Arrivals arrivals_of(const nlohmann::json& list, int64_t step, const std::string& path,
                     const Servers& servers) {
  const int first = servers.rank_of(0), last = servers.rank_of(servers.workers - 1);
  Arrivals arrivals;
  for (const nlohmann::json& one : list) {
    const int64_t rank = one.is_number_integer() ? one.get<int64_t>() : 0;
    if (std::abs(rank) < first || std::abs(rank) > last)
      throw_error(
          "{}: in step {}, {} is among the arrivals; workers are {} to {}, with a minus where one was lost. "
          "It is the log of a run with other ranks",
          path, step, one.dump(), first, last);
    arrivals.push_back(static_cast<int>(rank));
  }
  return arrivals;
}

}  // namespace

std::map<int64_t, Arrivals> read_arrivals(const std::string& path, const Servers& servers) {
  std::ifstream in(path);
  if (!in)
    throw_error("cannot read {}; the metrics.jsonl of the run that is to be made again expected", path);
  std::map<int64_t, Arrivals> result;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains("arrivals") || !object["arrivals"].is_array()) continue;
    const nlohmann::json step = object.value("step", nlohmann::json());
    if (!step.is_number_integer()) continue;
    result[step.get<int64_t>()] = arrivals_of(object["arrivals"], step.get<int64_t>(), path, servers);
  }
  if (result.empty())
    throw_error(
        "{} has no arrivals; the metrics.jsonl of a run with the exchange server, async_server or ssp "
        "expected",
        path);
  return result;
}

}  // namespace trireme

// What a run of a placement measured, beside what the simulation of the same requests says.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trireme/placed/feed.h"

namespace trireme::placed {

struct Comparison {
  double per_second = 0, median = 0, p99 = 0;  // answers a second; seconds
  std::vector<std::vector<double>> bytes;      // between tiers
  place::Cost cost;                            // dollars per hour at the rates of the workflow
};
Comparison simulated(const Job& job);
Comparison measured(const Job& job, const RunReport& report);

std::string to_text(const Job& job, const Comparison& simulated, const Comparison& measured,
                    const RunReport& report);
// Of a run that lost a worker: what was done until then, which no simulation is of.
std::string to_text(const Comparison& measured, const RunReport& report);
nlohmann::ordered_json to_json(const Job& job, const Comparison& simulated, const Comparison& measured,
                               const RunReport& report);
// One object a line for each request: what each op made of it, by the op's name.
std::string answer_lines(const Job& job, const RunReport& report);

}  // namespace trireme::placed

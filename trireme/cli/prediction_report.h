// What `trireme simulate` says of a step, for people and for scripts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trireme/bench/prediction.h"

namespace trireme::cli {

void print_prediction(const bench::Prediction& prediction, const bench::StepSetup& setup,
                      const std::string& cluster, const Plan& plan);
nlohmann::ordered_json prediction_json(const bench::Prediction& prediction, const bench::StepSetup& setup,
                                       const std::string& cluster, const Plan& plan);

}  // namespace trireme::cli

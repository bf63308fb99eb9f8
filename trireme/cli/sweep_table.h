// A sweep of `trireme simulate`: a table, and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trireme/bench/sweep.h"

namespace trireme::cli {

// Printed row by row, as points are simulated.
class SweepTable {
 public:
  explicit SweepTable(const std::vector<bench::Swept>& swept);
  void print(const bench::SweepPoint& point);

 private:
  std::vector<std::string> keys_;
  std::vector<size_t> widths_;
  double first_rate_ = 0;  // of a rank, in the first row that there is
  bool begun_ = false;
};

nlohmann::ordered_json sweep_json(const std::vector<bench::Swept>& swept,
                                  const std::vector<bench::SweepPoint>& points, const std::string& cluster);

}  // namespace trireme::cli

// Who waited for whom: what the times of one rank do not say, and those of all of them together do. Ranks of
// a synchronous step end it together; the one that spent least time in communication came last, and what the
// others spent beyond that they waited for it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trireme/dashboard/number_log.h"

namespace trireme::dashboard {

struct RankWaits {
  std::vector<double> seconds;  // that it waited, for each row of its log; NaN where that is not known
  int64_t rows_last = 0;        // of those within the steps asked for: in how many it came last
};

struct WaitsOfRanks {
  std::map<int, RankWaits> ranks;
  int64_t rows = 0;  // steps, or means of several, that two ranks or more have a line of
};

// Of the logs of all ranks, whose lines have `step` and `comm_seconds`. Steps outside of from…to are not
// counted.
WaitsOfRanks waits_of(const std::map<int, NumberLog>& ranks, double from, double to);

}  // namespace trireme::dashboard

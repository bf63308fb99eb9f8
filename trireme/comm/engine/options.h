// What a group and its collectives are asked for, and what an operation reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/choice.h"

namespace trireme::comm {

class Recorder;

struct GroupOptions {
  double timeout_seconds = 120;  // of one operation; every other wait derives from it
  std::vector<int> hosts;        // host number of each member, for hierarchical; empty: all on one
  Chooser chooser;               // may be empty
  Recorder* recorder = nullptr;  // may be null
  std::string name = "world";    // for messages: "world", "data", "tensor"
};

struct CollectiveOptions {
  Algorithm algorithm = Algorithm::automatic;
  size_t segment_bytes = 0;  // of messages; 0: chosen
  int64_t unit = 1;          // elements that no two parts share; the count is a multiple
};

// What an operation was and cost.
struct OperationReport {
  Call call;  // with the algorithm that ran
  uint32_t sequence = 0;
  size_t segment_bytes = 0;
  double predicted_seconds = 0;  // 0 without a table of links
  double seconds = 0;            // from start to the end of wait
};

}  // namespace trireme::comm

// Every collective with every algorithm that it has.
#pragma once

#include <vector>

#include "trireme/comm/collective/algorithms.h"

namespace trireme::comm {

struct Case {
  Collective collective;
  Algorithm algorithm;
};

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int c = 0; c < static_cast<int>(Collective::message); ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const Algorithm algorithm : algorithms_of(collective)) cases.push_back({collective, algorithm});
  }
  return cases;
}

}  // namespace trireme::comm

// Whom a rank speaks with when it follows its Program: for communicators that join ranks beforehand.
#pragma once

#include <string>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

struct CommUse {
  // A message's way, from one rank of the mesh to another.
  struct Way {
    int from, to;
    friend auto operator<=>(const Way&, const Way&) = default;
  };
  int rank = 0;                     // this one, on the mesh
  std::vector<std::string> groups;  // axes of the mesh over which it does collectives
  std::vector<Way> ways;            // of messages that it sends or receives
};

// Both are sorted: ranks that are joined one group after another, and then one way after another, wait for
// no rank that waits for them.
CommUse comm_use(const Program& program);

}  // namespace trireme

// Which server takes what of which request. It depends on the request's number alone, so that a simulation
// and a run send every message the same way, and nobody has to be asked.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::place {

// One of the servers that take an op's inputs, its part of them, and how long one takes there.
struct Route {
  int server = 0;
  double share = 0, seconds = 0;
  int tier = 0;
};

struct QueuedOp {
  std::vector<int> inputs;  // ops of the same flow, before this one; it starts when all of them are done
  std::vector<Route> routes;
  double passes = 1;  // of the requests that come this far; the others are answered without it
  // Where messages take time: of its output to each op that waits for it, and those of the request itself.
  double bytes = 0;
  struct FromSource {
    int tier = 0;
    double bytes = 0;
  };
  std::vector<FromSource> sources = {};
};

// What is done for a request. It is answered when all of its ops are done.
using Flow = std::vector<QueuedOp>;

// The tier in which each op is done, and the part of the requests for which it is.
struct Way {
  double share = 0;
  std::vector<int> tiers;  // by op
};
// Every op has its shares of each tier, and requests stay as low as these allow: those that are low for one
// op are low for all.
std::vector<Way> ways_of(const Flow& flow);

// By request and op: an index of the op's routes, or kNotTaken where the request is answered without it.
// Ways, and servers of a tier, come in turn by their shares.
inline constexpr int kNotTaken = -1;
using Taken = std::vector<std::vector<int>>;
Taken routes_of_requests(const Flow& flow, int64_t requests);

}  // namespace trireme::place

// Requests that wait for workers: a simulation of first come, first served.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/place/placement.h"

namespace trireme::place {

// One of the servers that take an op's inputs, its part of them, and how long one takes there.
struct Route {
  int server = 0;
  double share = 0, seconds = 0;
};

struct QueuedOp {
  std::vector<int> inputs;  // ops of the same flow, before this one; it starts when all of them are done
  std::vector<Route> routes;
  double passes = 1;  // of the requests that come this far; the others are answered without it
};

// What is done for a request. It is answered when all of its ops are done.
using Flow = std::vector<QueuedOp>;

struct Arrival {
  double time = 0;
  int flow = 0;
};

// Gamma-distributed times between requests: 1 is the coefficient of variation of independent requests, more
// comes in bursts, 0 is even.
std::vector<double> arrival_times(double rate, double variation, int64_t count, uint64_t seed);

struct QueueReport {
  std::vector<double> latency;  // of each arrival
  std::vector<double> busy;     // by server, the share of the whole time
  double seconds = 0;           // from the first arrival to the last answer
};

// `arrivals` in order of time. Inputs go to servers in turn by their shares, so that the simulation has no
// chance in it.
QueueReport simulate_queues(const std::vector<Flow>& flows, int servers,
                            const std::vector<Arrival>& arrivals);

// Requests come as the messages of the fastest source do; slower ones have a message for some of them.
double request_rate(const Workflow& workflow);

// A placement as a flow on servers of their own names. Messages take no time.
struct PlacedFlow {
  Flow flow;
  std::vector<std::string> servers;
};
PlacedFlow flow_of(const Workflow& workflow, const Placement& placement);

}  // namespace trireme::place

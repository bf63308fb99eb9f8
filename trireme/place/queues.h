// Requests that wait for workers: a simulation of first come, first served.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/place/placement.h"
#include "trireme/place/routes.h"

namespace trireme::place {

struct Arrival {
  double time = 0;
  int flow = 0;
};

// Gamma-distributed times between requests: 1 is the coefficient of variation of independent requests, more
// comes in bursts, 0 is even.
std::vector<double> arrival_times(double rate, double variation, int64_t count, uint64_t seed);

// By pairs of tiers: what a message takes from one to the other. A server sends its messages over equal links
// one after another, and receives them so, as the workers of a run do. Empty: no message takes time.
using Links = std::vector<std::vector<comm::EmulatedLink>>;
Links links_of(const Workflow& workflow);

struct QueueReport {
  std::vector<double> latency;             // of each arrival
  std::vector<double> busy;                // by server, the share of the whole time
  double seconds = 0;                      // from the first arrival to the last answer
  std::vector<std::vector<double>> bytes;  // of messages, by pairs of tiers
};

// `arrivals` in order of time. Inputs go to servers in turn by their shares, so that the simulation has no
// chance in it.
QueueReport simulate_queues(const std::vector<Flow>& flows, int servers, const std::vector<Arrival>& arrivals,
                            const Links& links = {});

// Requests come as the messages of the fastest source do; slower ones have a message for some of them.
double request_rate(const Workflow& workflow);

// A placement as a flow on servers of their own names. Throws Error where its messages between tiers are not
// those of requests that stay as low as they can.
struct PlacedFlow {
  Flow flow;
  std::vector<std::string> servers;
  std::vector<int> tiers = {};    // by server
  std::vector<int> workers = {};  // their classes
  Links links = {};
};
PlacedFlow flow_of(const Workflow& workflow, const Placement& placement);

}  // namespace trireme::place

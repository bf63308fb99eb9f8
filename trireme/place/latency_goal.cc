#include "trireme/place/latency_goal.h"

#include <algorithm>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/base/statistics.h"

namespace trireme::place {

QueueReport simulate_requests(const Workflow& workflow, const PlacedFlow& placed, const Requests& requests) {
  std::vector<Arrival> arrivals;
  for (const double time :
       arrival_times(request_rate(workflow), requests.variation, requests.count, requests.seed))
    arrivals.push_back({time, 0});
  return simulate_queues({placed.flow}, static_cast<int>(placed.servers.size()), arrivals, placed.links);
}

InTime best_in_time(const Workflow& given, double p99, const Requests& requests, double seconds) {
  constexpr int kSteps = 20;
  Workflow workflow = given;
  double shortest = std::numeric_limits<double>::infinity();
  for (int step = kSteps; step > 0; --step) {
    workflow.load = given.load * step / kSteps;
    InTime result{workflow.load, {}};
    try {
      result.best = best_placement(workflow, {}, seconds);
    } catch (const TooFewWorkers&) {
      if (step == kSteps) throw;
      break;  // too few workers for less load
    }
    const PlacedFlow placed = flow_of(workflow, result.best.placement);
    const double reached = quantile_of(simulate_requests(workflow, placed, requests).latency, 0.99);
    if (reached <= p99) return result;
    shortest = std::min(shortest, reached);
  }
  throw_error(
      "99 % of the requests are not answered within {:.4g} ms at any load of these workers, but within {:.4g} ms; add "
      "faster workers, or ask for less accuracy",
      1e3 * p99, 1e3 * shortest);
}

}  // namespace trireme::place

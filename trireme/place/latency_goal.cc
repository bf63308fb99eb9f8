#include "trireme/place/latency_goal.h"

#include <algorithm>
#include <limits>

#include "trireme/base/error.h"

namespace trireme::place {

QueueReport simulate_requests(const Workflow& workflow, const PlacedFlow& placed, const Requests& requests) {
  std::vector<Arrival> arrivals;
  for (const double time :
       arrival_times(request_rate(workflow), requests.variation, requests.count, requests.seed))
    arrivals.push_back({time, 0});
  return simulate_queues({placed.flow}, static_cast<int>(placed.servers.size()), arrivals);
}

double latency_percentile(const QueueReport& report, double share) {
  if (report.latency.empty()) return 0;
  std::vector<double> latency = report.latency;
  const size_t at =
      std::min(latency.size() - 1, static_cast<size_t>(share * static_cast<double>(latency.size())));
  std::ranges::nth_element(latency, latency.begin() + static_cast<int64_t>(at));
  return latency[at];
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
    } catch (const Error&) {
      if (step == kSteps) throw;
      break;  // too few workers for less load
    }
    const PlacedFlow placed = flow_of(workflow, result.best.placement);
    const double reached = latency_percentile(simulate_requests(workflow, placed, requests), 0.99);
    if (reached <= p99) return result;
    shortest = std::min(shortest, reached);
  }
  throw_error(
      "99 % of the requests are not answered within {:.4g} ms at any load of these workers, but within {:.4g} ms; add "
      "faster workers, or ask for less accuracy",
      1e3 * p99, 1e3 * shortest);
}

}  // namespace trireme::place

#include "trireme/place/queues.h"

#include <algorithm>
#include <queue>
#include <random>
#include <tuple>

#include "trireme/base/error.h"

namespace trireme::place {
namespace {

// Smooth weighted round robin: what a server was owed grows by its share with each input, and the largest
// debt is paid.
class Router {
 public:
  explicit Router(const std::vector<Route>& routes) : owed_(routes.size()) {
    for (const Route& route : routes) all_ += route.share;
  }
  const Route& next(const std::vector<Route>& routes) {
    for (size_t r = 0; r < routes.size(); ++r) owed_[r] += routes[r].share;
    const auto largest = std::ranges::max_element(owed_);
    *largest -= all_;
    return routes[largest - owed_.begin()];
  }

 private:
  std::vector<double> owed_;
  double all_ = 0;
};

class Queues {
 public:
  Queues(const std::vector<Flow>& flows, int servers, const std::vector<Arrival>& arrivals)
      : flows_(flows), arrivals_(arrivals), free_at_(servers), requests_(arrivals.size()) {
    report_.busy.resize(servers);
    for (const Flow& flow : flows) {
      std::vector<OpState>& states = ops_.emplace_back();
      for (const QueuedOp& op : flow) states.push_back({Router(op.routes), 0, {}});
      for (size_t o = 0; o < flow.size(); ++o) {
        for (const int input : flow[o].inputs) states[input].feeds.push_back(static_cast<int>(o));
      }
    }
  }

  QueueReport run() {
    for (size_t i = 0; i < arrivals_.size(); ++i) {
      Request& request = requests_[i];
      const Flow& flow = flows_[arrivals_[i].flow];
      request.waits.resize(flow.size());
      for (size_t o = 0; o < flow.size(); ++o) {
        request.waits[o] = static_cast<int>(flow[o].inputs.size());
        if (flow[o].inputs.empty()) ready_.emplace(arrivals_[i].time, i, static_cast<int>(o));
      }
    }
    // In order of time, so that a server takes its inputs in the order in which they come.
    while (!ready_.empty()) {
      const auto [time, request, op] = ready_.top();
      ready_.pop();
      start(time, request, op);
    }
    double last = 0;
    for (size_t i = 0; i < arrivals_.size(); ++i) {
      report_.latency.push_back(requests_[i].done - arrivals_[i].time);
      last = std::max(last, requests_[i].done);
    }
    report_.seconds = arrivals_.empty() ? 0 : last - arrivals_.front().time;
    for (double& busy : report_.busy) busy = report_.seconds > 0 ? busy / report_.seconds : 0;
    return std::move(report_);
  }

 private:
  struct OpState {
    Router router;
    double passed;           // what `passes` has added up to
    std::vector<int> feeds;  // ops that wait for it
  };
  struct Request {
    std::vector<int> waits;  // by op, inputs that are not there yet
    double done = 0;
  };

  void start(double time, size_t r, int o) {
    const int f = arrivals_[r].flow;
    const QueuedOp& op = flows_[f][o];
    OpState& state = ops_[f][o];
    Request& request = requests_[r];
    request.done = std::max(request.done, time);
    state.passed += op.passes;
    if (state.passed < 1) return;
    state.passed -= 1;
    const Route& route = state.router.next(op.routes);
    const double done = std::max(time, free_at_[route.server]) + route.seconds;
    free_at_[route.server] = done;
    report_.busy[route.server] += route.seconds;
    request.done = std::max(request.done, done);
    for (const int next : state.feeds) {
      if (--request.waits[next] == 0) ready_.emplace(done, r, next);
    }
  }

  using Ready = std::tuple<double, size_t, int>;  // time, request, op
  const std::vector<Flow>& flows_;
  const std::vector<Arrival>& arrivals_;
  std::vector<std::vector<OpState>> ops_;
  std::vector<double> free_at_;
  std::vector<Request> requests_;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
  QueueReport report_;
};

}  // namespace

std::vector<double> arrival_times(double rate, double variation, int64_t count, uint64_t seed) {
  if (!(rate > 0)) throw_error("a rate of {} requests a second; more than 0 expected", rate);
  if (!(variation >= 0)) throw_error("a coefficient of variation of {}; 0 or more expected", variation);
  std::mt19937_64 random(seed);
  const double squared = variation * variation;
  std::gamma_distribution<double> gap(squared > 0 ? 1 / squared : 1, squared / rate);
  std::vector<double> times;
  double now = 0;
  for (int64_t i = 0; i < count; ++i) {
    now += squared > 0 ? gap(random) : 1 / rate;
    times.push_back(now);
  }
  return times;
}

QueueReport simulate_queues(const std::vector<Flow>& flows, int servers,
                            const std::vector<Arrival>& arrivals) {
  return Queues(flows, servers, arrivals).run();
}

double request_rate(const Workflow& workflow) {
  return std::ranges::max(workflow.sources, {}, &Source::rate).rate;
}

PlacedFlow flow_of(const Workflow& workflow, const Placement& placement) {
  PlacedFlow result;
  const std::vector<double> rates = required_rates(workflow);
  std::vector<std::vector<int>> first(placement.rented.size());  // servers, by group and class
  for (size_t group = 0; group < placement.rented.size(); ++group) {
    for (size_t w = 0; w < workflow.workers.size(); ++w) {
      first[group].push_back(static_cast<int>(result.servers.size()));
      for (int i = 0; i < placement.rented[group][w]; ++i) {
        const bool alone = workflow.workers[w].count == 1;
        result.servers.push_back(workflow.workers[w].name + (alone ? "" : fmt::format("/{}", i)));
      }
    }
  }
  for (size_t o = 0; o < workflow.ops.size(); ++o) {
    QueuedOp& op = result.flow.emplace_back();
    double comes = request_rate(workflow);
    for (const Op::Input& input : workflow.ops[o].inputs) {
      if (input.is_source) continue;
      comes = std::min(comes, rates[input.index]);
      op.inputs.push_back(input.index);
    }
    op.passes = rates[o] / comes;
    const size_t group = workflow.shared ? 0 : o;
    for (const Share& share : placement.shares) {
      if (share.op != static_cast<int>(o)) continue;
      const int count = placement.rented[group][share.worker];
      const double seconds =
          workflow.ops[o].variants[placement.variants[o]].seconds[share.worker].value_or(0);
      for (int i = 0; i < count; ++i)
        op.routes.push_back({first[group][share.worker] + i, share.rate / count, seconds});
    }
  }
  return result;
}

}  // namespace trireme::place

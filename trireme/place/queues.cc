#include "trireme/place/queues.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <random>
#include <tuple>

#include "trireme/base/error.h"

namespace trireme::place {
namespace {

// What has the wires of one server, the sources or a server: until when each is taken, by the link.
using Wires = std::vector<double>;

class Queues {
 public:
  Queues(const std::vector<Flow>& flows, int servers, const std::vector<Arrival>& arrivals,
         const Links& links)
      : flows_(flows), arrivals_(arrivals), links_(links), free_at_(servers), requests_(arrivals.size()) {
    report_.busy.resize(servers);
    size_t tiers = links.size();
    for (const Flow& flow : flows) {
      auto& feeds = feeds_.emplace_back(flow.size());
      for (size_t o = 0; o < flow.size(); ++o) {
        for (const int input : flow[o].inputs) feeds[input].push_back(static_cast<int>(o));
        for (const Route& route : flow[o].routes) tiers = std::max<size_t>(tiers, route.tier + 1);
        for (const auto& source : flow[o].sources) tiers = std::max<size_t>(tiers, source.tier + 1);
      }
    }
    report_.bytes.assign(tiers, std::vector<double>(tiers));
    for (const auto& row : links) {
      for (const comm::EmulatedLink& link : row) {
        if (std::ranges::find(kinds_, link) == kinds_.end()) kinds_.push_back(link);
      }
    }
    sends_until_.assign(servers + 1, Wires(kinds_.size()));
    receives_until_ = sends_until_;
  }

  QueueReport run() {
    std::vector<int64_t> counts(flows_.size());
    for (const Arrival& arrival : arrivals_) ++counts[arrival.flow];
    std::vector<Taken> taken;
    for (size_t f = 0; f < flows_.size(); ++f) taken.push_back(routes_of_requests(flows_[f], counts[f]));
    std::ranges::fill(counts, 0);
    for (size_t i = 0; i < arrivals_.size(); ++i) {
      const int f = arrivals_[i].flow;
      requests_[i].taken = std::move(taken[f][counts[f]++]);
      begin(i);
    }
    // In order of time, so that a server takes its inputs in the order in which they come.
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.what == What::kFirstByte)
        receive(event);
      else
        take(event);
    }
    double last = 0;
    for (size_t i = 0; i < arrivals_.size(); ++i) {
      report_.latency.push_back(requests_[i].done - arrivals_[i].time);
      last = std::max(last, requests_[i].done);
    }
    report_.seconds = arrivals_.empty() ? 0 : last - arrivals_.front().time;
    for (double& busy : report_.busy) busy /= report_.seconds > 0 ? report_.seconds : 1;
    return std::move(report_);
  }

 private:
  static constexpr int kSources = -1;  // in the place of a server
  struct Request {
    std::vector<int> taken;  // by op, its route
    std::vector<int> waits;  // by op, messages that are not there yet
    double done = 0;
  };
  enum class What { kFirstByte, kThere };
  // Of a message to op `op`. Those of one moment are taken in the order of requests.
  struct Event {
    double time = 0;
    size_t request = 0;
    int op = 0;
    What what = What::kThere;
    size_t kind = 0;     // of the link
    double on_wire = 0;  // seconds
    bool operator>(const Event& other) const {
      return std::tie(time, request, op) > std::tie(other.time, other.request, other.op);
    }
  };

  const Flow& flow_of(size_t r) const { return flows_[arrivals_[r].flow]; }
  const Route& route(size_t r, int o) const { return flow_of(r)[o].routes[requests_[r].taken[o]]; }

  void begin(size_t r) {
    Request& request = requests_[r];
    const Flow& flow = flow_of(r);
    request.done = arrivals_[r].time;
    request.waits.resize(flow.size());
    for (size_t o = 0; o < flow.size(); ++o) {
      if (request.taken[o] == kNotTaken) continue;
      const int op = static_cast<int>(o);
      request.waits[o] =
          static_cast<int>(std::max<size_t>(1, flow[o].inputs.size() + flow[o].sources.size()));
      for (const auto& source : flow[o].sources)
        send(arrivals_[r].time, r, op, kSources, source.tier, source.bytes);
      if (flow[o].inputs.empty() && flow[o].sources.empty())
        events_.push({.time = arrivals_[r].time, .request = r, .op = op});
    }
  }

  void send(double time, size_t r, int o, int from, int from_tier, double bytes) {
    const int to_tier = route(r, o).tier;
    report_.bytes[from_tier][to_tier] += bytes;
    Event event{.time = time, .request = r, .op = o};
    if (!links_.empty() && links_[from_tier][to_tier] != comm::EmulatedLink()) {
      const comm::EmulatedLink& link = links_[from_tier][to_tier];
      event.what = What::kFirstByte;
      event.kind = static_cast<size_t>(std::ranges::find(kinds_, link) - kinds_.begin());
      event.on_wire = link.bytes_per_second > 0 ? bytes / link.bytes_per_second : 0;
      double& until = sends_until_[from + 1][event.kind];
      const double leaves = std::max(time, until);
      until = leaves + event.on_wire;
      event.time = leaves + link.latency_seconds;
    }
    events_.push(event);
  }

  // Whose first byte comes first has the wire first.
  void receive(Event event) {
    double& until = receives_until_[route(event.request, event.op).server + 1][event.kind];
    event.time = until = std::max(event.time, until) + event.on_wire;
    event.what = What::kThere;
    events_.push(event);
  }

  void take(const Event& event) {
    Request& request = requests_[event.request];
    if (--request.waits[event.op] > 0) return;
    const Route& here = route(event.request, event.op);
    const double done = std::max(event.time, free_at_[here.server]) + here.seconds;
    free_at_[here.server] = done;
    report_.busy[here.server] += here.seconds;
    request.done = std::max(request.done, done);
    for (const int next : feeds_[arrivals_[event.request].flow][event.op]) {
      if (request.taken[next] != kNotTaken)
        send(done, event.request, next, here.server, here.tier, flow_of(event.request)[event.op].bytes);
    }
  }

  const std::vector<Flow>& flows_;
  const std::vector<Arrival>& arrivals_;
  const Links& links_;
  std::vector<comm::EmulatedLink> kinds_;             // that differ
  std::vector<std::vector<std::vector<int>>> feeds_;  // by flow and op, the ops that wait for it
  std::vector<double> free_at_;
  std::vector<Wires> sends_until_, receives_until_;  // of the sources, and of each server
  std::vector<Request> requests_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  QueueReport report_;
};

// The messages of the ways must be those that the placement pays for.
void check_ways(const Workflow& workflow, const Placement& placement, const Flow& flow) {
  const std::vector<double> rates = required_rates(workflow);
  const std::vector<Way> ways = ways_of(flow);
  for (size_t o = 0; o < workflow.ops.size(); ++o) {
    for (size_t i = 0; i < workflow.ops[o].inputs.size(); ++i) {
      const Op::Input& input = workflow.ops[o].inputs[i];
      std::map<std::pair<int, int>, double> sent;
      for (const Way& way : ways) {
        const int from = input.is_source ? workflow.sources[input.index].tier : way.tiers[input.index];
        sent[{from, way.tiers[o]}] += way.share * rates[o];
      }
      for (const Traffic& one : placement.traffic) {
        if (one.op == static_cast<int>(o) && one.input == static_cast<int>(i))
          sent[{one.from, one.to}] -= one.rate;
      }
      for (const auto& [tiers, rate] : sent) {
        if (std::abs(rate) > 1e-4 * rates[o])
          throw_error(
              "the cheapest messages to op '{}' pass by tiers in a way in which requests are not routed; name the "
              "tiers in the order in which messages go, or give fewer of them",
              workflow.ops[o].name);
      }
    }
  }
}

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

QueueReport simulate_queues(const std::vector<Flow>& flows, int servers, const std::vector<Arrival>& arrivals,
                            const Links& links) {
  return Queues(flows, servers, arrivals, links).run();
}

Links links_of(const Workflow& workflow) {
  Links links(workflow.tiers.size(), std::vector<comm::EmulatedLink>(workflow.tiers.size()));
  for (const TierLink& link : workflow.links) links[link.from][link.to] = link.speed;
  return links;
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
        result.tiers.push_back(workflow.workers[w].tier);
        result.workers.push_back(static_cast<int>(w));
      }
    }
  }
  for (size_t o = 0; o < workflow.ops.size(); ++o) {
    QueuedOp& op = result.flow.emplace_back();
    double comes = request_rate(workflow);
    for (const Op::Input& input : workflow.ops[o].inputs) {
      if (input.is_source) {
        const Source& source = workflow.sources[input.index];
        op.sources.push_back({source.tier, kBytesPerKilobyte * source.kilobytes});
        continue;
      }
      comes = std::min(comes, rates[input.index]);
      op.inputs.push_back(input.index);
    }
    op.passes = rates[o] / comes;
    const Variant& variant = workflow.ops[o].variants[placement.variants[o]];
    op.bytes = kBytesPerKilobyte * variant.kilobytes;
    const size_t group = workflow.shared ? 0 : o;
    for (const Share& share : placement.shares) {
      if (share.op != static_cast<int>(o)) continue;
      const int count = placement.rented[group][share.worker];
      const double seconds = variant.seconds[share.worker].value_or(0);
      for (int i = 0; i < count; ++i)
        op.routes.push_back({first[group][share.worker] + i, share.rate / count, seconds,
                             workflow.workers[share.worker].tier});
    }
  }
  result.links = links_of(workflow);
  check_ways(workflow, placement, result.flow);
  return result;
}

}  // namespace trireme::place

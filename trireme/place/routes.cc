// See routes.h.
#include "trireme/place/routes.h"

#include <algorithm>
#include <map>

namespace trireme::place {
namespace {

constexpr double kSmallest = 1e-9;  // a share below this is rounding

// Smooth weighted round robin: what one was owed grows by its share each time, and the largest debt is paid.
class Turns {
 public:
  void add(double share) {
    shares_.push_back(share);
    owed_.push_back(0);
    all_ += share;
  }
  size_t next() {
    for (size_t i = 0; i < owed_.size(); ++i) owed_[i] += shares_[i];
    const auto largest = std::ranges::max_element(owed_);
    *largest -= all_;
    return static_cast<size_t>(largest - owed_.begin());
  }

 private:
  std::vector<double> shares_, owed_;
  double all_ = 0;
};

// Of all of an op's inputs, the part that lower tiers take, by tier.
std::map<int, double> ends_of_tiers(const QueuedOp& op) {
  std::map<int, double> ends;
  double all = 0;
  for (const Route& route : op.routes) {
    ends[route.tier] += route.share;
    all += route.share;
  }
  double sum = 0;
  for (auto& [tier, end] : ends) end = (sum += end) / all;
  return ends;
}

// The servers of an op in one tier, in turn.
struct ServersOfTier {
  Turns turns;
  std::vector<int> routes;
};

}  // namespace

std::vector<Way> ways_of(const Flow& flow) {
  std::vector<std::map<int, double>> ends;
  std::vector<double> borders = {1};
  for (const QueuedOp& op : flow) {
    ends.push_back(ends_of_tiers(op));
    for (const auto& [tier, end] : ends.back()) borders.push_back(end);
  }
  std::ranges::sort(borders);
  std::vector<Way> ways;
  double begin = 0;
  for (const double border : borders) {
    if (border - begin < kSmallest) continue;
    Way way{border - begin, {}};
    const double middle = (begin + border) / 2;
    for (const auto& tiers : ends) {
      const auto found = std::ranges::find_if(tiers, [&](const auto& one) { return middle < one.second; });
      way.tiers.push_back(found == tiers.end() ? tiers.rbegin()->first : found->first);
    }
    begin = border;
    ways.push_back(std::move(way));
  }
  return ways;
}

Taken routes_of_requests(const Flow& flow, int64_t requests) {
  const std::vector<Way> ways = ways_of(flow);
  Turns turns;
  for (const Way& way : ways) turns.add(way.share);
  std::vector<std::map<int, ServersOfTier>> servers(flow.size());
  for (size_t o = 0; o < flow.size(); ++o) {
    for (size_t r = 0; r < flow[o].routes.size(); ++r) {
      ServersOfTier& tier = servers[o][flow[o].routes[r].tier];
      tier.turns.add(flow[o].routes[r].share);
      tier.routes.push_back(static_cast<int>(r));
    }
  }
  // What `passes` has added up to, for each way by itself, so that every tier has its part of what goes on.
  std::vector<std::vector<double>> passed(ways.size(), std::vector<double>(flow.size()));
  Taken taken(static_cast<size_t>(requests), std::vector<int>(flow.size(), kNotTaken));
  for (std::vector<int>& request : taken) {
    const size_t w = turns.next();
    for (size_t o = 0; o < flow.size(); ++o) {
      if (std::ranges::any_of(flow[o].inputs, [&](int input) { return request[input] == kNotTaken; }))
        continue;
      double& sum = passed[w][o];
      sum += flow[o].passes;
      if (sum < 1 - kSmallest) continue;
      sum -= 1;
      ServersOfTier& tier = servers[o].at(ways[w].tiers[o]);
      request[o] = tier.routes[tier.turns.next()];
    }
  }
  return taken;
}

}  // namespace trireme::place

// See places.h.
#include "trireme/comm/collective/places.h"

#include <algorithm>
#include <map>

namespace trireme::comm {

Places places_of(std::span<const int> hosts, int cores_per_host) {
  Places places{.hosts = {hosts.begin(), hosts.end()}};
  std::map<int, int> ranks, seen;  // of each host
  for (const int host : hosts) ++ranks[host];
  const bool crowded = std::ranges::any_of(ranks, [&](const auto& at) { return at.second > cores_per_host; });
  if (cores_per_host == 0 || !crowded) return places;
  for (const int host : hosts) {
    const int core = seen[host]++ * cores_per_host / std::max(ranks[host], cores_per_host);
    places.cores.push_back(host * cores_per_host + core);
  }
  return places;
}

}  // namespace trireme::comm

// Where the ranks of a group run: what is shared between them, and which links are short.
#pragma once

#include <span>
#include <vector>

namespace trireme::comm {

struct Places {
  std::vector<int> hosts = {};  // host number of each rank; empty: all on one
  std::vector<int> cores = {};  // core number of each rank, unlike those of other hosts; empty: one for each

  bool same_host(int a, int b) const { return hosts.empty() || hosts[a] == hosts[b]; }
  bool same_core(int a, int b) const { return !cores.empty() && cores[a] == cores[b]; }
};

// Of all ranks of a job, on hosts with so many cores (0: enough), as the launcher binds them (core_share.h):
// those of a host in order to its cores in order, as evenly as they go. No cores where each has its own.
Places places_of(std::span<const int> hosts, int cores_per_host);

}  // namespace trireme::comm

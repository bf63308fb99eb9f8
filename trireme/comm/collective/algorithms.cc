// The one place that names all algorithms.
#include "trireme/comm/collective/algorithms.h"

#include <fmt/format.h>

#include <string>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/collective/algorithm_functions.h"

namespace trireme::comm {
namespace {

struct Shape {
  int ranks;
  int root;
  std::span<const int> hosts;
};

struct Entry {
  Collective collective;
  Algorithm algorithm;
  Steps (*make)(const Shape&);
};

template <Steps (*kFunction)(int)>
Steps of_ranks(const Shape& shape) {
  return kFunction(shape.ranks);
}
template <Steps (*kFunction)(int, int)>
Steps of_root(const Shape& shape) {
  return kFunction(shape.ranks, shape.root);
}
template <Steps (*kFunction)(int, std::span<const int>)>
Steps of_hosts(const Shape& shape) {
  return kFunction(shape.ranks, shape.hosts);
}

constexpr Entry kTable[] = {
    {Collective::all_reduce, Algorithm::naive, of_ranks<naive_all_reduce>},
    {Collective::all_reduce, Algorithm::parameter_server, of_ranks<parameter_server_all_reduce>},
    {Collective::all_reduce, Algorithm::sharded_parameter_server,
     of_ranks<sharded_parameter_server_all_reduce>},
    {Collective::all_reduce, Algorithm::ring, of_ranks<ring_all_reduce>},
    {Collective::all_reduce, Algorithm::tree, of_ranks<tree_all_reduce>},
    {Collective::all_reduce, Algorithm::double_tree, of_ranks<double_tree_all_reduce>},
    {Collective::all_reduce, Algorithm::butterfly, of_ranks<butterfly_all_reduce>},
    {Collective::all_reduce, Algorithm::reduce_scatter_gather, of_ranks<reduce_scatter_gather_all_reduce>},
    {Collective::all_reduce, Algorithm::hierarchical, of_hosts<hierarchical_all_reduce>},
    {Collective::reduce_scatter, Algorithm::naive, of_ranks<naive_reduce_scatter>},
    {Collective::reduce_scatter, Algorithm::ring, of_ranks<ring_reduce_scatter>},
    {Collective::reduce_scatter, Algorithm::butterfly, of_ranks<butterfly_reduce_scatter>},
    {Collective::all_gather, Algorithm::naive, of_ranks<naive_all_gather>},
    {Collective::all_gather, Algorithm::ring, of_ranks<ring_all_gather>},
    {Collective::all_gather, Algorithm::butterfly, of_ranks<butterfly_all_gather>},
    {Collective::broadcast, Algorithm::naive, of_root<naive_broadcast>},
    {Collective::broadcast, Algorithm::ring, of_root<ring_broadcast>},
    {Collective::broadcast, Algorithm::tree, of_root<tree_broadcast>},
    {Collective::reduce, Algorithm::naive, of_root<naive_reduce>},
    {Collective::reduce, Algorithm::tree, of_root<tree_reduce>},
    {Collective::gather, Algorithm::naive, of_root<naive_gather>},
    {Collective::gather, Algorithm::tree, of_root<tree_gather>},
    {Collective::scatter, Algorithm::naive, of_root<naive_scatter>},
    {Collective::scatter, Algorithm::tree, of_root<tree_scatter>},
    {Collective::all_to_all, Algorithm::naive, of_ranks<naive_all_to_all>},
    {Collective::barrier, Algorithm::butterfly, of_ranks<butterfly_barrier>},
};

[[noreturn]] void refuse(Collective collective, Algorithm algorithm) {
  std::vector<std::string> names;
  for (const Algorithm each : algorithms_of(collective)) names.emplace_back(name(each));
  if (names.empty()) throw_error("{} is not run by steps; it has no algorithms", name(collective));
  throw_error("no steps for {} by {}: there are {}", name(collective), name(algorithm), join(names, ", "));
}

}  // namespace

Steps make_steps(Collective collective, Algorithm algorithm, int ranks, int root,
                 std::span<const int> hosts) {
  TRIREME_CHECK(ranks >= 1);
  if (root < 0 || root >= ranks) {
    throw_error("{}: root {} of {} ranks; expected 0 to {}", name(collective), root, ranks, ranks - 1);
  }
  if (!hosts.empty() && static_cast<int>(hosts.size()) != ranks) {
    throw_error("{}: host numbers of {} ranks given for {} ranks; give one for each, or none at all",
                name(collective), hosts.size(), ranks);
  }
  for (const Entry& entry : kTable) {
    if (entry.collective == collective && entry.algorithm == algorithm) {
      return entry.make({.ranks = ranks, .root = root, .hosts = hosts});
    }
  }
  refuse(collective, algorithm);
}

std::vector<Algorithm> algorithms_of(Collective collective) {
  std::vector<Algorithm> algorithms;
  for (const Entry& entry : kTable) {
    if (entry.collective == collective) algorithms.push_back(entry.algorithm);
  }
  return algorithms;
}

}  // namespace trireme::comm

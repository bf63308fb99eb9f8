// The one place that names all algorithms: what makes the Steps of each, and what they cost.
#include "trireme/comm/collective/algorithms.h"

#include <algorithm>
#include <set>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/collective/algorithm_functions.h"
#include "trireme/comm/collective/closed_forms.h"

namespace trireme::comm {
namespace {

using Hosts = std::span<const int>;

struct Shape {
  int ranks;
  int root;
  Hosts hosts;
};

struct Entry {
  Collective collective;
  Algorithm algorithm;
  Steps (*make)(const Shape&);
  Formula (*cost)(int ranks, Hosts hosts);
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
template <Steps (*kFunction)(int, int, std::span<const int>)>
Steps of_root_and_hosts(const Shape& shape) {
  return kFunction(shape.ranks, shape.root, shape.hosts);
}
template <Formula (*kFunction)(int)>
Formula cost(int ranks, Hosts) {
  return kFunction(ranks);
}

// Formula: rounds, vectors sent by the busiest rank; messages, vectors carried and reduced one after another.
constexpr Entry kTable[] = {
    {Collective::all_reduce, Algorithm::naive, of_ranks<naive_all_reduce>, cost<naive_formula>},
    {Collective::all_reduce, Algorithm::parameter_server, of_ranks<parameter_server_all_reduce>,
     cost<parameter_server_formula>},
    {Collective::all_reduce, Algorithm::sharded_parameter_server,
     of_ranks<sharded_parameter_server_all_reduce>, cost<sharded_parameter_server_formula>},
    {Collective::all_reduce, Algorithm::ring, of_ranks<ring_all_reduce>, cost<ring_formula>},
    {Collective::all_reduce, Algorithm::tree, of_ranks<tree_all_reduce>, cost<tree_formula>},
    {Collective::all_reduce, Algorithm::double_tree, of_ranks<double_tree_all_reduce>,
     cost<double_tree_formula>},
    {Collective::all_reduce, Algorithm::butterfly, of_ranks<butterfly_all_reduce>, cost<butterfly_formula>},
    {Collective::all_reduce, Algorithm::reduce_scatter_gather, of_ranks<reduce_scatter_gather_all_reduce>,
     cost<reduce_scatter_gather_formula>},
    {Collective::all_reduce, Algorithm::hierarchical, of_hosts<hierarchical_all_reduce>,
     hierarchical_formula},
    {Collective::all_reduce, Algorithm::linear, of_ranks<linear_all_reduce>, cost<linear_formula>},
    {Collective::reduce_scatter, Algorithm::naive, of_ranks<naive_reduce_scatter>,
     cost<naive_reduce_scatter_formula>},
    {Collective::reduce_scatter, Algorithm::ring, of_ranks<ring_reduce_scatter>,
     cost<ring_reduce_scatter_formula>},
    {Collective::reduce_scatter, Algorithm::butterfly, of_ranks<butterfly_reduce_scatter>,
     cost<butterfly_reduce_scatter_formula>},
    {Collective::reduce_scatter, Algorithm::hierarchical, of_hosts<hierarchical_reduce_scatter>,
     hierarchical_reduce_scatter_formula},
    {Collective::all_gather, Algorithm::naive, of_ranks<naive_all_gather>, cost<part_to_each_formula>},
    {Collective::all_gather, Algorithm::ring, of_ranks<ring_all_gather>, cost<ring_all_gather_formula>},
    {Collective::all_gather, Algorithm::butterfly, of_ranks<butterfly_all_gather>,
     cost<butterfly_all_gather_formula>},
    {Collective::all_gather, Algorithm::hierarchical, of_hosts<hierarchical_all_gather>,
     hierarchical_all_gather_formula},
    {Collective::broadcast, Algorithm::naive, of_root<naive_broadcast>, cost<naive_broadcast_formula>},
    {Collective::broadcast, Algorithm::ring, of_root<ring_broadcast>, cost<ring_broadcast_formula>},
    {Collective::broadcast, Algorithm::tree, of_root<tree_broadcast>, cost<tree_broadcast_formula>},
    {Collective::broadcast, Algorithm::hierarchical, of_root_and_hosts<hierarchical_broadcast>,
     hierarchical_broadcast_formula},
    {Collective::reduce, Algorithm::naive, of_root<naive_reduce>, cost<naive_reduce_formula>},
    {Collective::reduce, Algorithm::tree, of_root<tree_reduce>, cost<tree_reduce_formula>},
    {Collective::reduce, Algorithm::linear, of_root<linear_reduce>, cost<linear_reduce_formula>},
    {Collective::gather, Algorithm::naive, of_root<naive_gather>, cost<naive_gather_formula>},
    {Collective::gather, Algorithm::tree, of_root<tree_gather>, cost<tree_gather_formula>},
    {Collective::scatter, Algorithm::naive, of_root<naive_scatter>, cost<part_to_each_formula>},
    {Collective::scatter, Algorithm::tree, of_root<tree_scatter>, cost<tree_scatter_formula>},
    {Collective::all_to_all, Algorithm::naive, of_ranks<naive_all_to_all>, cost<part_to_each_formula>},
    {Collective::all_to_all, Algorithm::hierarchical, of_hosts<hierarchical_all_to_all>,
     hierarchical_all_to_all_formula},
    {Collective::barrier, Algorithm::butterfly, of_ranks<butterfly_barrier>, cost<butterfly_barrier_formula>},
};

const Entry& find(Collective collective, Algorithm algorithm) {
  std::vector<std::string> names;
  for (const Entry& entry : kTable) {
    if (entry.collective != collective) continue;
    if (entry.algorithm == algorithm) return entry;
    names.emplace_back(name(entry.algorithm));
  }
  if (names.empty()) throw_error("{} is not run by steps; it has no algorithms", name(collective));
  throw_error("no steps for {} by {}: there are {}", name(collective), name(algorithm), join(names, ", "));
}

void check_shape(Collective collective, const Shape& shape) {
  TRIREME_CHECK(shape.ranks >= 1);
  if (shape.root < 0 || shape.root >= shape.ranks) {
    throw_error("{}: root {} of {} ranks; expected 0 to {}", name(collective), shape.root, shape.ranks,
                shape.ranks - 1);
  }
  if (!shape.hosts.empty() && static_cast<int>(shape.hosts.size()) != shape.ranks) {
    throw_error("{}: host numbers of {} ranks given for {} ranks; give one for each, or none at all",
                name(collective), shape.hosts.size(), shape.ranks);
  }
}

}  // namespace

Steps make_steps(Collective collective, Algorithm algorithm, int ranks, int root,
                 std::span<const int> hosts) {
  const Shape shape{.ranks = ranks, .root = root, .hosts = hosts};
  check_shape(collective, shape);
  return find(collective, algorithm).make(shape);
}

Formula formula(Collective collective, Algorithm algorithm, int ranks, std::span<const int> hosts) {
  const Shape shape{.ranks = ranks, .root = 0, .hosts = hosts};
  check_shape(collective, shape);
  return find(collective, algorithm).cost(ranks, hosts);
}

double formula_seconds(const Formula& formula, size_t bytes, const Link& link) {
  const double n = static_cast<double>(bytes);
  return formula.messages * link.alpha_seconds + formula.carried * n * link.beta_seconds_per_byte +
         formula.reduced * n * link.gamma_seconds_per_byte;
}

std::vector<Algorithm> algorithms_of(Collective collective) {
  std::vector<Algorithm> algorithms;
  for (const Entry& entry : kTable) {
    if (entry.collective == collective) algorithms.push_back(entry.algorithm);
  }
  return algorithms;
}

std::vector<Algorithm> algorithms_for(Collective collective, std::span<const int> hosts) {
  std::vector<Algorithm> algorithms = algorithms_of(collective);
  const size_t count = std::set<int>(hosts.begin(), hosts.end()).size();
  if (count <= 1 || count == hosts.size()) std::erase(algorithms, Algorithm::hierarchical);
  return algorithms;
}

}  // namespace trireme::comm

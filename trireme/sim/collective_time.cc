// Groups along axes as links, and what runs on them.
#include "trireme/sim/collective_time.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/cost.h"
#include "trireme/comm/collective/formula.h"

namespace trireme::sim {
namespace {

using comm::Algorithm;
using comm::Collective;

bool is_slower(const Path& a, const Path& b) {
  return std::tuple(a.beta_seconds_per_byte, a.alpha_seconds) >
         std::tuple(b.beta_seconds_per_byte, b.alpha_seconds);
}

comm::Link link_of(const Path& path) {
  return {path.alpha_seconds, path.beta_seconds_per_byte, path.gamma_seconds_per_byte};
}

double formula_time(Collective collective, Algorithm algorithm, int ranks, double bytes, const Path& path) {
  if (ranks < 2) return 0;
  return comm::formula_seconds(comm::formula(collective, algorithm, ranks),
                               static_cast<size_t>(std::llround(bytes)), link_of(path));
}

// As Steps cut a vector; see comm/collective/choose.cc.
std::vector<size_t> chunk_bytes(const comm::Steps& steps, Collective collective, double bytes) {
  const int cuts = collective == Collective::all_to_all ? steps.ranks() : steps.chunks();
  return std::vector<size_t>(static_cast<size_t>(steps.chunks()),
                             static_cast<size_t>(std::llround(bytes / cuts)));
}

// Ordered pairs of ranks with the same number.
double pairs_of(const std::vector<int>& numbers) {
  std::map<int, double> with_number;
  for (const int number : numbers) ++with_number[number];
  double pairs = 0;
  for (const auto& [number, ranks] : with_number) pairs += ranks * (ranks - 1);
  return pairs;
}

}  // namespace

Collective collective_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return Collective::all_reduce;
    case CollectiveKind::kReduceScatter:
      return Collective::reduce_scatter;
    case CollectiveKind::kAllGather:
      return Collective::all_gather;
    case CollectiveKind::kShift:  // one of the rounds in which a ring gathers; see seconds()
      return Collective::all_gather;
    case CollectiveKind::kAllToAll:
      break;
  }
  return Collective::all_to_all;
}

CollectiveTimes::CollectiveTimes(const DeviceMap& device_map, CollectiveModel model, Algorithms algorithms)
    : map_(device_map), model_(model), algorithms_(std::move(algorithms)) {}

int CollectiveTimes::group_class(int rank, int axis) {
  const std::vector<int> members = map_.mesh().members(rank, axis);
  const auto [entry, fresh] = class_of_.try_emplace({members[0], axis}, 0);
  if (!fresh) return entry->second;
  Group group = make_group(members, axis);
  const auto same = std::ranges::find_if(groups_, [&](const Group& other) { return other.is_like(group); });
  entry->second = static_cast<int>(same - groups_.begin());
  if (same == groups_.end()) groups_.push_back(std::move(group));
  return entry->second;
}

bool CollectiveTimes::Group::is_like(const Group& other) const {
  return algorithm == other.algorithm && hosts == other.hosts && leaves == other.leaves &&
         host_classes == other.host_classes;
}

// Paths between these are all the paths that there are: groups may have thousands of members, and paths
// depend on leaves and classes of hosts alone. Of each of these, two members of one host, and one of another.
std::vector<int> CollectiveTimes::representatives(const Group& group) const {
  struct Kept {
    int host = -1, other = -1;
    int of_host = 0;
  };
  std::map<std::pair<int, const HostClass*>, Kept> kept;
  std::vector<int> result;
  for (int i = 0; i < group.ranks(); ++i) {
    Kept& here = kept[{group.leaves[i], group.host_classes[i]}];
    if (here.host < 0) here.host = group.hosts[i];
    const bool first_host = group.hosts[i] == here.host;
    if (first_host ? ++here.of_host > 2 : here.other >= 0) continue;
    if (!first_host) here.other = group.hosts[i];
    result.push_back(i);
  }
  return result;
}

CollectiveTimes::Group CollectiveTimes::make_group(const std::vector<int>& members, int axis) const {
  Group group{.members = members};
  std::map<int, int> hosts, leaves;  // their numbers
  std::vector<int> on_host;
  const auto number = [](std::map<int, int>& numbers, int of) {
    return numbers.try_emplace(of, static_cast<int>(numbers.size())).first->second;
  };
  for (const int member : members) {
    group.hosts.push_back(number(hosts, map_.host(member)));
    group.leaves.push_back(number(leaves, map_.leaf(member)));
    group.host_classes.push_back(&map_.host_class(member));
    on_host.resize(hosts.size());
    ++on_host[group.hosts.back()];
  }
  group.per_host = std::ranges::adjacent_find(on_host, std::not_equal_to()) == on_host.end() ? on_host[0] : 0;
  const std::vector<int> some = representatives(group);
  for (const int from : some) {
    for (const int to : some) {
      if (from == to) continue;
      const Path one = path(group, from, to);
      if (is_slower(one, group.widest)) group.widest = one;
      if (one.reach == Reach::kInside && is_slower(one, group.inside)) group.inside = one;
      group.slowdown = std::max(group.slowdown, one.slowdown);
    }
  }
  const int ranks = group.ranks();
  for (int i = 0; i < ranks; ++i) {
    const Reach reach = ranks == 1 ? Reach::kInside : path(group, i, (i + 1) % ranks).reach;
    group.edges[static_cast<size_t>(reach)] += 1.0 / ranks;
  }
  const double inside = pairs_of(group.hosts), of_leaf = pairs_of(group.leaves),
               all = static_cast<double>(ranks) * (ranks - 1);
  if (ranks > 1) group.pairs = {inside / all, (of_leaf - inside) / all, (all - of_leaf) / all};
  const auto named = algorithms_.find(map_.mesh().axes()[axis].name);
  if (named != algorithms_.end() && named->second != Algorithm::native) group.algorithm = named->second;
  return group;
}

// Those whose closed form is exact on these links. Two levels take rings inside and across.
std::vector<Algorithm> CollectiveTimes::candidates(const Group& group, Collective collective) const {
  std::vector<Algorithm> result = {Algorithm::ring};
  const bool all_reduce = collective == Collective::all_reduce;
  if (group.widest.reach == Reach::kInside || group.per_host == 1) {
    if (!std::has_single_bit(static_cast<unsigned>(group.ranks()))) return result;
    result.push_back(Algorithm::butterfly);
    if (all_reduce) result.push_back(Algorithm::reduce_scatter_gather);
  } else if (group.has_levels()) {
    result.push_back(Algorithm::hierarchical);
  }
  return result;
}

double CollectiveTimes::closed_seconds(const Group& group, Collective collective, Algorithm algorithm,
                                       double bytes) const {
  if (algorithm != Algorithm::hierarchical)
    return formula_time(collective, algorithm, group.ranks(), bytes, group.widest);
  // What is passed on inside has to have come from across.
  const bool in_turn = collective == Collective::all_to_all;
  if (in_turn || !std::ranges::all_of(group.host_classes, &HostClass::levels_at_once))
    return two_level_seconds(group, collective, bytes, group.inside, group.widest);
  // Messages pass one level after the other; bytes are on the links of both at the same time.
  const auto with_rate = [](Path path, double beta) {
    path.beta_seconds_per_byte = beta;
    return path;
  };
  const Path no_time = {.reach = group.inside.reach};
  const double latency =
      two_level_seconds(group, collective, bytes, with_rate(group.inside, 0), with_rate(group.widest, 0));
  const double within = two_level_seconds(group, collective, bytes,
                                          with_rate(no_time, group.inside.beta_seconds_per_byte), no_time);
  const double between = two_level_seconds(group, collective, bytes, no_time,
                                           with_rate(no_time, group.widest.beta_seconds_per_byte));
  return latency + std::max(within, between);
}

// One level after the other, over these paths.
double CollectiveTimes::two_level_seconds(const Group& group, Collective collective, double bytes,
                                          const Path& within, const Path& between) {
  const int inside = group.per_host, hosts = group.host_count();
  const auto level = [&](Collective of, int ranks, double of_bytes, const Path& path) {
    return formula_time(of, Algorithm::ring, ranks, of_bytes, path);
  };
  if (collective == Collective::all_to_all)
    return formula_time(collective, Algorithm::naive, hosts, bytes, between) +
           formula_time(collective, Algorithm::naive, inside, bytes, within);
  if (collective != Collective::all_reduce) {
    // Inside, what is for each host is a message of its own.
    const double more_messages = (hosts - 1.0) * (inside - 1);
    return level(collective, inside, bytes, within) + more_messages * within.alpha_seconds +
           level(collective, hosts, bytes / inside, between);
  }
  return level(Collective::reduce_scatter, inside, bytes, within) +
         level(Collective::all_reduce, hosts, bytes / inside, between) +
         level(Collective::all_gather, inside, bytes, within);
}

// Ranks send to the switch and read from it: two messages follow one another. The rate is that of the bus, by
// the count of a ring.
double CollectiveTimes::switch_seconds(const Group& group, double bytes) {
  const double on_bus = 2.0 * (group.ranks() - 1) / group.ranks() * bytes;
  return 2 * group.inside.alpha_seconds + on_bus * group.inside.all_reduce_beta_seconds_per_byte;
}

double CollectiveTimes::steps_seconds(const Group& group, Collective collective, Algorithm algorithm,
                                      double bytes) const {
  const comm::Steps steps = comm::make_steps(collective, algorithm, group.ranks(), 0, group.hosts);
  comm::Costs costs;
  costs.transfer = [&](int from, int to, size_t message) -> comm::Transfer {
    const Path hop = path(group, from, to);
    const double seconds = hop.alpha_seconds + static_cast<double>(message) * hop.beta_seconds_per_byte;
    return {.send_seconds = seconds, .receive_seconds = seconds};
  };
  costs.reduce_seconds = [&](size_t message) {
    return static_cast<double>(message) * group.widest.gamma_seconds_per_byte;
  };
  costs.ports = comm::Ports::one_each_way;
  const std::vector<size_t> chunks = chunk_bytes(steps, collective, bytes);
  const size_t whole = std::max<size_t>(1, comm::longest_message_bytes(steps, chunks));
  return comm::predict_seconds(steps, chunks, whole, costs);
}

// Bytes are on the wire of the sender, and come in on that of the receiver α later (transport/emulated).
double CollectiveTimes::run_seconds(const Group& group, Collective collective, double bytes,
                                    Parts parts) const {
  const comm::Choice choice = as_run(group, collective, bytes, parts);
  const comm::Steps steps = comm::make_steps(collective, choice.algorithm, group.ranks(), 0, group.hosts);
  const auto transfer = [&](int from, int to, size_t message) -> comm::Transfer {
    const Path hop = path(group, from, to);
    const double on_wire = static_cast<double>(message) * hop.beta_seconds_per_byte;
    return {.send_seconds = on_wire, .delay_seconds = hop.alpha_seconds, .receive_seconds = on_wire};
  };
  const auto add = [&](size_t message) {
    return static_cast<double>(message) * group.widest.gamma_seconds_per_byte;
  };
  return comm::predict_seconds(steps, chunk_bytes(steps, collective, bytes), choice.segment_bytes,
                               {.transfer = transfer, .reduce_seconds = add});
}

// What runs where nothing was measured.
comm::Choice CollectiveTimes::as_run(const Group& group, Collective collective, double bytes,
                                     Parts parts) const {
  const bool equal = parts == Parts::kEqual;
  const comm::Call call{.collective = collective,
                        .dtype = DType::u8,
                        .count = equal ? static_cast<int64_t>(std::llround(bytes)) : 0};
  comm::Choice choice = comm::fixed_choice(call, /*native_offered=*/false, group.hosts);
  choice.algorithm = named(group, collective, parts).value_or(choice.algorithm);
  return choice;
}

// The plan's, where it names one that the collective has.
std::optional<Algorithm> CollectiveTimes::named(const Group& group, Collective collective, Parts parts) {
  if (parts == Parts::kUnequal) return Algorithm::naive;
  const std::vector<Algorithm> known = comm::algorithms_of(collective);
  const bool has =
      group.algorithm != Algorithm::automatic && std::ranges::find(known, group.algorithm) != known.end();
  return has ? std::optional(group.algorithm) : std::nullopt;
}

Algorithm CollectiveTimes::chosen(const Group& group, CollectiveKind kind, double bytes, Parts parts) const {
  const Collective collective = collective_of(kind);
  return model_ == CollectiveModel::kAsRun ? as_run(group, collective, bytes, parts).algorithm
                                           : fastest(group, collective, bytes, parts);
}

bool CollectiveTimes::has_two_levels(const Group& group, CollectiveKind kind, double bytes,
                                     Parts parts) const {
  return group.has_levels() && kind != CollectiveKind::kShift &&
         chosen(group, kind, bytes, parts) == Algorithm::hierarchical;
}

Algorithm CollectiveTimes::fastest(const Group& group, Collective collective, double bytes,
                                   Parts parts) const {
  if (const std::optional<Algorithm> one = named(group, collective, parts)) return *one;
  // Its two ways send different bytes, which have to be those of a run.
  if (collective == Collective::all_to_all) return as_run(group, collective, bytes, parts).algorithm;
  Algorithm best = Algorithm::ring;
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm algorithm : candidates(group, collective)) {
    const double seconds = closed_seconds(group, collective, algorithm, bytes);
    if (seconds < least) std::tie(best, least) = std::pair(algorithm, seconds);
  }
  return best;
}

double CollectiveTimes::seconds(int group_class, CollectiveKind kind, double bytes, Parts parts) {
  const Group& group = groups_[group_class];
  if (group.ranks() < 2) return 0;
  const auto [entry, fresh] = known_.try_emplace({group_class, kind, bytes, parts}, 0);
  if (!fresh) return entry->second;
  if (model_ == CollectiveModel::kAsRun) {
    entry->second = kind == CollectiveKind::kShift
                        ? group.widest.alpha_seconds + bytes * group.widest.beta_seconds_per_byte
                        : run_seconds(group, collective_of(kind), bytes, parts);
    return entry->second;
  }
  if (kind == CollectiveKind::kShift) {
    const double rounds = group.ranks() - 1, whole = bytes * group.ranks();
    entry->second = closed_seconds(group, Collective::all_gather, Algorithm::ring, whole) / rounds;
    return entry->second;
  }
  const Collective collective = collective_of(kind);
  const Algorithm algorithm = fastest(group, collective, bytes, parts);
  entry->second = model_ == CollectiveModel::kSteps ? steps_seconds(group, collective, algorithm, bytes)
                                                    : closed_seconds(group, collective, algorithm, bytes);
  if (model_ == CollectiveModel::kClosedForms && collective == Collective::all_reduce &&
      group.has_adding_switches())
    entry->second = std::min(entry->second, switch_seconds(group, bytes));
  return entry->second;
}

double CollectiveTimes::busy_seconds(int group_class, CollectiveKind kind, double bytes, double sent) {
  if (model_ != CollectiveModel::kAsRun) return seconds(group_class, kind, bytes);
  return sent * groups_[group_class].widest.beta_seconds_per_byte;
}

double CollectiveTimes::passed_on_bytes(int group_class, CollectiveKind kind, double bytes, Parts parts) {
  const Group& group = groups_[group_class];
  const bool passes = kind == CollectiveKind::kAllToAll && has_two_levels(group, kind, bytes, parts);
  // All that comes from other hosts, but for what is a rank's own.
  return passes ? (group.host_count() - 1.0) * (group.per_host - 1) / group.ranks() * bytes : 0;
}

PerReach CollectiveTimes::reaches(int group_class, CollectiveKind kind, double bytes, double sent,
                                  Parts parts) {
  const Group& group = groups_[group_class];
  PerReach result = {};
  if (group.ranks() < 2) return result;
  if (has_two_levels(group, kind, bytes, parts)) {
    const double rings = kind == CollectiveKind::kAllReduce ? 2 : 1;
    const double inside = rings * (group.per_host - 1) / group.per_host * bytes;
    const double all = sent + passed_on_bytes(group_class, kind, bytes, parts);
    result[static_cast<size_t>(Reach::kInside)] = inside;
    result[static_cast<size_t>(group.widest.reach)] += all - inside;
    return result;
  }
  const PerReach& shares = kind == CollectiveKind::kAllToAll ? group.pairs : group.edges;
  for (size_t reach = 0; reach < result.size(); ++reach) result[reach] = sent * shares[reach];
  return result;
}

}  // namespace trireme::sim

// See comparison.h.
#include "trireme/comm/collective/comparison.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include "trireme/base/part.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/check.h"

namespace trireme::comm {
namespace {

int fan_in(const Steps& steps) {
  size_t most = 0;
  for (int rank = 0; rank < steps.ranks(); ++rank) {
    std::set<int> senders;
    for (const Step& step : steps.of(rank)) {
      if (step.kind == Step::Kind::receive) senders.insert(step.peer);
    }
    most = std::max(most, senders.size());
  }
  return static_cast<int>(most);
}

}  // namespace

Costs costs_over(const EmulatedLink& link) {
  return costs_between_hosts(link, {});
}

Costs costs_between_hosts(const EmulatedLink& link, std::vector<int> hosts) {
  const Link costs = link.costs();
  return {.transfer =
              [costs, hosts = std::move(hosts)](int from, int to, size_t bytes) {
                if (!hosts.empty() && hosts[from] == hosts[to]) return Transfer{};
                const double on_wire = static_cast<double>(bytes) * costs.beta_seconds_per_byte;
                return Transfer{.send_seconds = on_wire,
                                .delay_seconds = costs.alpha_seconds,
                                .receive_seconds = on_wire};
              },
          .reduce_seconds = [](size_t) { return 0.0; },
          .ports = Ports::one_each_way};
}

// α is counted once each way, because all ranks send at once, but bytes meet at
// the master.
Formula masters_formula(int ranks, int masters) {
  const double part = 1.0 * ranks / masters;
  return {.rounds = 2, .sent = part, .messages = 2, .carried = 2 * part, .reduced = part};
}

Formula all_reduce_bound(int ranks) {
  const double parts = (ranks - 1.0) / ranks;
  const int rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
  return {.rounds = rounds, .sent = 2 * parts, .messages = rounds, .carried = 2 * parts, .reduced = parts};
}

std::vector<Compared> compared(Collective collective, std::span<const int> hosts, size_t bytes,
                               size_t segment_bytes, const Costs& costs) {
  const int ranks = static_cast<int>(hosts.size());
  std::vector<Compared> result;
  for (const Algorithm algorithm : algorithms_for(collective, hosts)) {
    const Steps steps = make_steps(collective, algorithm, ranks, /*root=*/0, hosts);
    // What a rank of an all-to-all gives is cut for each, and so of all ranks together each time.
    const int cuts = collective == Collective::all_to_all ? ranks : steps.chunks();
    std::vector<size_t> chunks;
    for (int chunk = 0; chunk < steps.chunks(); ++chunk) {
      const int part = steps.has_even_chunks() ? 0 : chunk % cuts;
      chunks.push_back(static_cast<size_t>(part_of(static_cast<int64_t>(bytes), cuts, part).size));
    }
    const std::vector<size_t> sent = bytes_sent(steps, chunks);
    result.push_back({.algorithm = algorithm,
                      .rounds = check_steps(steps, collective).rounds,
                      .total_bytes = std::accumulate(sent.begin(), sent.end(), size_t{0}),
                      .busiest_bytes = *std::ranges::max_element(sent),
                      .fan_in = fan_in(steps),
                      .form = formula(collective, algorithm, ranks, hosts),
                      .seconds = predict_seconds(steps, chunks, segment_bytes, costs)});
  }
  return result;
}

}  // namespace trireme::comm

// See programs.h.
#include "trireme/comm/calibrate/programs.h"

#include <map>

namespace trireme::comm {
namespace {

// One message of every pair, forwards or backwards.
void send_all(Steps& steps, std::span<const RankPair> pairs, bool forwards, int chunk, Action action) {
  for (const RankPair& pair : pairs) {
    steps.send(forwards ? pair.first : pair.second, forwards ? pair.second : pair.first, chunk, action);
  }
}

}  // namespace

std::vector<RankPair> pairs_inside(std::span<const int> hosts) {
  std::vector<RankPair> pairs;
  std::map<int, int> single;  // host -> a rank without a partner
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
    const auto [entry, is_new] = single.emplace(hosts[rank], rank);
    if (is_new) continue;
    pairs.push_back({entry->second, rank});
    single.erase(entry);
  }
  return pairs;
}

std::vector<RankPair> pairs_across(std::span<const int> hosts) {
  for (int rank = 1; rank < static_cast<int>(hosts.size()); ++rank) {
    if (hosts[rank] != hosts[0]) return {{0, rank}};
  }
  return {};
}

Steps ping_pong(int ranks, std::span<const RankPair> pairs, int hops) {
  Steps steps(ranks, 1);
  for (int hop = 0; hop < hops; ++hop) send_all(steps, pairs, hop % 2 == 0, 0, Action::copy);
  return steps;
}

// Back comes first what came last, so that nothing goes back before all is there.
Steps bursts(int ranks, std::span<const RankPair> pairs, int messages, int phases) {
  Steps steps(ranks, messages);
  for (int phase = 0; phase < phases; ++phase) {
    const bool forwards = phase % 2 == 0;
    for (int i = 0; i < messages; ++i) {
      send_all(steps, pairs, forwards, forwards ? i : messages - 1 - i, Action::copy);
    }
  }
  return steps;
}

Steps exchanges(int ranks, std::span<const RankPair> pairs, int chains, int rounds, Action action) {
  Steps steps(ranks, 2 * chains);
  for (int round = 0; round < rounds; ++round) {
    for (int chain = 0; chain < chains; ++chain) {
      steps.round([&] {
        send_all(steps, pairs, true, 2 * chain + round % 2, action);
        send_all(steps, pairs, false, 2 * chain + 1 - round % 2, action);
      });
    }
  }
  return steps;
}

Steps mirrored(int ranks, std::span<const RankPair> pairs, int chunks, int rounds) {
  Steps steps(ranks, chunks);
  for (int round = 0; round < rounds; ++round) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      steps.round([&] {
        send_all(steps, pairs, true, chunk, Action::add);
        send_all(steps, pairs, false, chunk, Action::add);
      });
    }
  }
  return steps;
}

Steps vector_exchange(int ranks, std::span<const RankPair> pairs, int chunks, Action first, Action then) {
  Steps steps(ranks, chunks);
  for (const bool forwards : {true, false}) {
    const Action action = forwards ? first : then;
    for (int chunk = 0; chunk < chunks; chunk += 2) {
      steps.round([&] {
        send_all(steps, pairs, forwards, chunk, action);
        send_all(steps, pairs, !forwards, chunk + 1, action);
      });
    }
  }
  return steps;
}

Steps handed_back(int ranks, std::span<const RankPair> pairs) {
  Steps steps(ranks, 1);
  send_all(steps, pairs, false, 0, Action::add);
  send_all(steps, pairs, true, 0, Action::copy);
  return steps;
}

}  // namespace trireme::comm

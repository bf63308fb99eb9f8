// Draws what waits for what if every receive waited for its turn, and lets those wait that are in no circle;
// see step_order.h. A circle of waiting ranks would contain such a receive, so there can be none.

#include <unordered_map>

#include "trireme/comm/collective/step_order.h"

namespace trireme::comm {
namespace {

class WaitingGraph {
 public:
  explicit WaitingGraph(const Steps& steps) : steps_(steps), first_(steps.ranks() + 1) {
    for (int rank = 0; rank < steps.ranks(); ++rank) first_[rank + 1] = first_[rank] + size(rank);
    waits_for_.resize(first_.back());
    other_end_.resize(first_.back());
    match_ends();
    for (int rank = 0; rank < steps.ranks(); ++rank) add_rank(rank);
    find_circles();
  }

  // True also for a step between two circles, which could wait; telling these apart is not worth its time.
  bool in_circle(int rank, uint32_t step) const { return in_circle_[event(rank, step)]; }

 private:
  uint32_t size(int rank) const { return static_cast<uint32_t>(steps_.of(rank).size()); }
  uint32_t event(int rank, uint32_t step) const { return first_[rank] + step; }

  // Messages of a pair arrive in the order in which they were sent: the n-th send is the n-th receive.
  void match_ends() {
    struct Pair {
      std::vector<uint32_t> sends, receives;
    };
    std::unordered_map<int64_t, Pair> pairs;
    for (int rank = 0; rank < steps_.ranks(); ++rank) {
      for (uint32_t i = 0; i < size(rank); ++i) {
        const Step& step = steps_.of(rank)[i];
        if (step.kind == Step::Kind::send) {
          pairs[int64_t{rank} << 32 | step.peer].sends.push_back(event(rank, i));
        } else if (step.kind == Step::Kind::receive) {
          pairs[int64_t{step.peer} << 32 | rank].receives.push_back(event(rank, i));
        }
      }
    }
    for (const auto& [_, pair] : pairs) {
      for (size_t i = 0; i < pair.sends.size(); ++i) {
        other_end_[pair.sends[i]] = pair.receives[i];
        other_end_[pair.receives[i]] = pair.sends[i];
      }
    }
  }

  void add_rank(int rank) {
    const std::span<const Step> list = steps_.of(rank);
    // A send is over when it was received.
    const auto end_of = [&](uint32_t i) {
      return list[i].kind == Step::Kind::send ? other_end_[event(rank, i)] : event(rank, i);
    };
    StepOrder order(steps_.chunks() + steps_.scratch_chunks());
    std::unordered_map<int64_t, uint32_t> last_in_lane;
    std::vector<uint32_t> before;
    for (uint32_t i = 0; i < size(rank); ++i) {
      const Step& step = list[i];
      std::vector<uint32_t>& waits = waits_for_[event(rank, i)];
      before.clear();
      order.add(step, i, before);
      for (const uint32_t earlier : before) waits.push_back(end_of(earlier));
      if (step.kind == Step::Kind::local) continue;
      if (step.kind == Step::Kind::receive) waits.push_back(other_end_[event(rank, i)]);
      // What is behind in the same lane goes after what is before.
      const int64_t lane = int64_t{step.peer} * 2 + (step.kind == Step::Kind::send);
      const auto [last, first_there] = last_in_lane.try_emplace(lane, i);
      if (!first_there) waits.push_back(end_of(last->second));
      last->second = i;
    }
  }

  // Takes away what waits for nothing that is left, then what nothing that is left waits for.
  void find_circles() {
    std::vector<std::vector<uint32_t>> waited_by(waits_for_.size());
    for (uint32_t at = 0; at < waits_for_.size(); ++at) {
      for (const uint32_t other : waits_for_[at]) waited_by[other].push_back(at);
    }
    in_circle_.assign(waits_for_.size(), true);
    peel(waits_for_, waited_by);
    peel(waited_by, waits_for_);
  }

  // Takes away steps without a `to` that is left, until there are none.
  void peel(const std::vector<std::vector<uint32_t>>& to, const std::vector<std::vector<uint32_t>>& from) {
    std::vector<uint32_t> count(to.size()), todo;
    for (uint32_t at = 0; at < to.size(); ++at) {
      for (const uint32_t other : to[at]) count[at] += in_circle_[other];
      if (in_circle_[at] && count[at] == 0) todo.push_back(at);
    }
    while (!todo.empty()) {
      const uint32_t at = todo.back();
      todo.pop_back();
      in_circle_[at] = false;
      for (const uint32_t other : from[at]) {
        if (in_circle_[other] && --count[other] == 0) todo.push_back(other);
      }
    }
  }

  const Steps& steps_;
  std::vector<uint32_t> first_;  // number of each rank's first step, counted over all ranks
  std::vector<std::vector<uint32_t>> waits_for_;
  std::vector<uint32_t> other_end_;
  std::vector<bool> in_circle_;
};

}  // namespace

std::vector<bool> receives_in_turn(const Steps& steps, int rank) {
  const WaitingGraph graph(steps);
  std::vector<bool> in_turn(steps.of(rank).size());
  for (size_t i = 0; i < in_turn.size(); ++i) {
    in_turn[i] =
        steps.of(rank)[i].kind == Step::Kind::receive && !graph.in_circle(rank, static_cast<uint32_t>(i));
  }
  return in_turn;
}

}  // namespace trireme::comm

// Follows a message back to what had to happen before it could be sent; see in_turn.h.
#include "trireme/comm/collective/in_turn.h"

#include <unordered_map>
#include <unordered_set>

namespace trireme::comm {
namespace {

// One chunk as one step of one rank touches it.
struct Event {
  int rank;
  int step;
  int chunk;
};

class Past {
 public:
  explicit Past(const Steps& steps) : steps_(steps), other_end_(steps.ranks()) {
    // Messages of a pair arrive in the order in which they were sent: the n-th send is the n-th receive.
    std::unordered_map<int64_t, std::vector<int>> sends;
    for (int rank = 0; rank < steps.ranks(); ++rank) {
      other_end_[rank].resize(steps.of(rank).size());
      for (int i = 0; i < static_cast<int>(steps.of(rank).size()); ++i) {
        const Step& step = steps.of(rank)[i];
        if (step.kind == Step::Kind::send) sends[pair(rank, step.peer)].push_back(i);
      }
    }
    std::unordered_map<int64_t, size_t> taken;
    for (int rank = 0; rank < steps.ranks(); ++rank) {
      for (int i = 0; i < static_cast<int>(steps.of(rank).size()); ++i) {
        const Step& step = steps.of(rank)[i];
        if (step.kind != Step::Kind::receive) continue;
        const int64_t key = pair(step.peer, rank);
        const int send = sends[key][taken[key]++];
        other_end_[rank][i] = send;
        other_end_[step.peer][send] = i;
      }
    }
  }

  Event other_end(Event event) const {
    const Step& step = steps_.of(event.rank)[event.step];
    const int end = other_end_[event.rank][event.step];
    const Step& other = steps_.of(step.peer)[end];
    return {step.peer, end, other.chunk + event.chunk - step.chunk};
  }

  // Whether `earlier` had to be over before `later` could happen.
  bool before(Event earlier, Event later) const {
    std::vector<Event> todo{later};
    std::unordered_set<int64_t> seen;
    while (!todo.empty()) {
      const Event event = todo.back();
      todo.pop_back();
      if (event.rank == earlier.rank && event.step == earlier.step) return true;
      const int64_t key = (int64_t{event.rank} << 24 | event.step) << 24 | event.chunk;
      if (!seen.insert(key).second) continue;
      const Step& step = steps_.of(event.rank)[event.step];
      if (step.kind == Step::Kind::receive) todo.push_back(other_end(event));
      push_writer(event.rank, event.step, event.chunk, todo);
      if (step.kind == Step::Kind::local) push_writer(event.rank, event.step, step.from, todo);
    }
    return false;
  }

 private:
  static int64_t pair(int from, int to) { return int64_t{from} << 32 | to; }

  void push_writer(int rank, int before_step, int chunk, std::vector<Event>& todo) const {
    for (int i = before_step - 1; i >= 0; --i) {
      const Step& step = steps_.of(rank)[i];
      const bool touches = chunk >= step.chunk && chunk < step.chunk + step.count;
      if (step.kind == Step::Kind::send || !touches) continue;
      todo.push_back({rank, i, chunk});
      return;
    }
  }

  const Steps& steps_;
  std::vector<std::vector<int>> other_end_;  // step number at the peer
};

}  // namespace

std::vector<bool> receives_in_turn(const Steps& steps, int rank) {
  const Past past(steps);
  const std::span<const Step> list = steps.of(rank);
  std::vector<bool> in_turn(list.size(), false);
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (list[i].kind != Step::Kind::receive) continue;
    bool all = true;
    for (int chunk = list[i].chunk; all && chunk < list[i].chunk + list[i].count; ++chunk) {
      const Event sent = past.other_end({rank, i, chunk});
      // Everything on this chunk since it was last written, and that write.
      for (int j = i - 1; all && j >= 0; --j) {
        const Step& step = list[j];
        const bool touches = chunk >= step.chunk && chunk < step.chunk + step.count;
        const bool reads = step.kind == Step::Kind::local && step.from == chunk;
        if (!touches && !reads) continue;
        const Event event{rank, j, touches ? chunk : step.chunk};
        all = past.before(step.kind == Step::Kind::send ? past.other_end(event) : event, sent);
        if (touches && step.kind != Step::Kind::send) break;
      }
    }
    in_turn[i] = all;
  }
  return in_turn;
}

}  // namespace trireme::comm

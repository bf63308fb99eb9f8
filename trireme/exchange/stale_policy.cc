// Weights of neighbours that may be some steps old (arrival_policy.h).
//
// A rank sends its weights in every step, from slots that it takes in turn, and expects one message of each
// neighbour. It takes those of steps up to its own: with s = 0 that is d_psgd in lockstep. Whoever waits,
// waits for a rank that has made fewer steps: for a message that is s steps behind its own, or for one of
// s + 1 steps ago to be taken, before its slot is written again. So nobody waits for ever.
#include <algorithm>

#include "trireme/exchange/arrival_policy.h"
#include "trireme/exchange/gossip.h"
#include "trireme/exchange/mixed.h"

namespace trireme {
namespace {

class StalePolicy final : public ArrivalPolicy {
 public:
  StalePolicy(const PolicyPlace& place, ListDriver& driver)
      : ArrivalPolicy(driver), how_(place.agreement), first_(place.first), next_(place.first) {
    const GossipGraph graph = gossip_graph(how_.settings().word("graph"));
    for (const int rank : neighbours(graph, place.ranks, place.rank))
      neighbours_.push_back({.rank = rank, .number = neighbours_.size(), .version = first_ - 1});
    for (const GossipRound& round : gossip_rounds(graph, place.ranks, place.rank)) to_.push_back(round.to);
  }

  void begin() override {
    for (const Neighbour& one : neighbours_) driver_.expect(one.rank, slot_to_come(one));
  }

  void start(int64_t step) override {
    next_ = step + 1;
    driver_.update(step, sending_slot(step));
    send(step);
  }

  // First what must have come, from all of them, then what has come besides.
  bool hear(int64_t step) override {
    for (Neighbour& one : neighbours_) {
      while (!one.over && one.version < std::max(first_, step - how_.staleness())) {
        const ListDriver::Arrival arrival = driver_.take_first_of({one.rank});
        if (arrival.rank < 0) return false;
        take(one, arrival.status);
      }
    }
    for (Neighbour& one : neighbours_) {
      while (!one.over && one.version < step) {
        const std::optional<float> status = driver_.take(one.rank);
        if (!status) break;
        take(one, *status);
      }
    }
    for (const Neighbour& one : neighbours_) {
      if (one.version < first_) continue;  // it has stopped before it made a step
      driver_.run(When::What::kMix, receiving_slot(how_, one.number, one.slot));
      driver_.note_staleness(step - one.version);
    }
    return true;
  }

  void end(Why why) override {
    for (const Neighbour& one : neighbours_)
      driver_.set_status(one.rank, sending_slot(next_), why == Why::kStopped ? kRunStops : kNoMoreComes);
    send(next_);
    for (Neighbour& one : neighbours_) {
      while (!one.over) take(one, driver_.take_first_of({one.rank}).status);
    }
  }

 private:
  struct Neighbour {
    int rank;
    size_t number;
    int64_t version;  // the step (counted from 0) that its weights here are of; before the first: none are
    int slot = 0;     // of its two, that those are in
    bool over = false;
  };

  int64_t sending_slot(int64_t step) const { return step % sending_slots(how_); }
  int slot_to_come(const Neighbour& one) const { return receiving_slot(how_, one.number, 1 - one.slot); }

  void send(int64_t step) {
    for (const int rank : to_) driver_.begin_telling(rank, sending_slot(step));
  }

  void take(Neighbour& one, float status) {
    asked_ |= status == kRunStops;
    one.over = status < 0;
    if (one.over) return;
    ++one.version;  // they come in order, one of each step
    one.slot = 1 - one.slot;
    driver_.expect(one.rank, slot_to_come(one));
  }

  const Agreement how_;
  const int64_t first_;
  int64_t next_;  // step
  std::vector<Neighbour> neighbours_;
  std::vector<int> to_;  // the same, in the order in which they are sent to
};

}  // namespace

std::unique_ptr<ArrivalPolicy> stale_policy(const PolicyPlace& place, ListDriver& driver) {
  return std::make_unique<StalePolicy>(place, driver);
}

}  // namespace trireme

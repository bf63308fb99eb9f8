// Weights of neighbours that may be some steps old (gossip_steps.h).
//
// A rank sends its weights in every step, from slots that it takes in turn, and has one message of each
// neighbour to come. It takes those of steps up to its own: with s = 0 that is d_psgd in lockstep. Whoever
// waits, waits for a rank that has made fewer steps: for a message that is s steps behind its own, or for one
// of s + 1 steps ago to be taken, before its slot is written again. So nobody waits for ever.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/gossip.h"
#include "trireme/exchange/mixed.h"
#include "trireme/train/gossip_steps.h"

namespace trireme {
namespace {

class StaleSteps final : public GossipSteps {
 public:
  StaleSteps(const RankOptions& ranks, const Agreement& how, Trainer& trainer, int64_t first,
             std::optional<Order> replay)
      : GossipSteps(ranks, how, trainer, std::move(replay)),
        first_(first),
        next_(first),
        under_way_(static_cast<size_t>(sending_slots(how))) {
    for (const int rank : neighbours(gossip_graph(how.settings().word("graph")), ranks_, rank_))
      neighbours_.push_back({.rank = rank, .version = first - 1});
    for (size_t i = 0; i < neighbours_.size(); ++i) expect(i);
  }

 private:
  struct Neighbour {
    int rank;
    int64_t version;  // the step (counted from 0) that its weights here are of; before the first: none are
    int slot = 0;     // of its two, that those are in
    bool over = false;
  };

  StepResult update(int64_t step, double rate) override {
    const int64_t slot = step % std::ssize(under_way_);
    for (int& sends = under_way_[static_cast<size_t>(slot)]; sends > 0; --sends)
      communicator_.wait(memory(kMixedState, slot));
    StepResult result = trainer_.update_alone(step, rate, slot);
    send(slot);
    next_ = step + 1;
    replays() ? take_replayed(step) : take_arrived(step);
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      if (neighbours_[i].version < first_) continue;  // it has stopped before it made a step
      trainer_.run_list(When::asked(When::What::kMix), receiving_slot(how_, i, neighbours_[i].slot));
      note_staleness(step - neighbours_[i].version);
    }
    return result;
  }

  // First what must have come, from all of them, then what has come besides.
  void take_arrived(int64_t step) {
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      while (is_too_old(neighbours_[i], step)) {
        communicator_.wait(awaited(i));
        take(i);
      }
    }
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      while (may_be_newer(neighbours_[i], step) && communicator_.try_wait(awaited(i))) take(i);
    }
  }

  void take_replayed(int64_t step) {
    for (const int rank : replayed()) {
      const auto found = std::ranges::find(neighbours_, rank, &Neighbour::rank);
      if (found == neighbours_.end()) refuse_replay(rank, "which is no neighbour");
      if (!may_be_newer(*found, step)) refuse_replay(rank, "of which none is left to take");
      const auto number = static_cast<size_t>(found - neighbours_.begin());
      communicator_.wait(awaited(number));
      take(number);
    }
    for (const Neighbour& one : neighbours_) {
      if (is_too_old(one, step)) refuse_replay(one.rank, "but its weights are older than they may be");
    }
  }

  bool may_be_newer(const Neighbour& one, int64_t step) const { return !one.over && one.version < step; }
  bool is_too_old(const Neighbour& one, int64_t step) const {
    return !one.over && one.version < std::max(first_, step - how_.staleness());
  }

  // Until all neighbours have said that nothing more comes. What they send is let in meanwhile: they may wait
  // for that to be taken.
  void end(Why why) override {
    const int64_t slot = next_ % std::ssize(under_way_);
    wait_for_sends(slot);
    news_in(kMixedState, slot) = why == Why::kStopped ? kRunStops : kNoMoreComes;
    send(slot);
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      while (!neighbours_[i].over) {
        communicator_.wait(awaited(i));
        take(i);
      }
    }
    for (int64_t other = 0; other < std::ssize(under_way_); ++other) wait_for_sends(other);
  }

  void wait_for_sends(int64_t slot) {
    int& sends = under_way_[static_cast<size_t>(slot)];
    while (sends > 0) {
      std::vector<const std::byte*> awaiting = {memory(kMixedState, slot)};
      std::vector<size_t> numbers;
      for (size_t i = 0; i < neighbours_.size(); ++i) {
        if (neighbours_[i].over) continue;
        numbers.push_back(i);
        awaiting.push_back(awaited(i));
      }
      const size_t through = communicator_.wait_any(awaiting).number;
      through == 0 ? void(--sends) : take(numbers[through - 1]);
    }
  }

  void send(int64_t slot) {
    for (const Neighbour& one : neighbours_) begin(When::tell(one.rank), slot);
    under_way_[static_cast<size_t>(slot)] += static_cast<int>(neighbours_.size());
  }

  int slot_to_come(size_t number) const { return receiving_slot(how_, number, 1 - neighbours_[number].slot); }
  const std::byte* awaited(size_t number) const { return memory(kMixedState, slot_to_come(number)); }
  void expect(size_t number) { begin(When::arrival(neighbours_[number].rank), slot_to_come(number)); }
  void take(size_t number) {
    Neighbour& one = neighbours_[number];
    const float news = news_in(kMixedState, slot_to_come(number));
    note_arrival(one.rank, news);
    one.over = news < 0;
    if (one.over) return;
    ++one.version;  // they come in order, one of each step
    one.slot = 1 - one.slot;
    expect(number);
  }

  const int64_t first_;
  int64_t next_;  // step
  std::vector<Neighbour> neighbours_;
  std::vector<int> under_way_;  // sends, by their slots
};

}  // namespace

std::unique_ptr<GossipSteps> make_stale_steps(const RankOptions& ranks, const Agreement& how,
                                              Trainer& trainer, int64_t first,
                                              std::optional<GossipSteps::Order> replay) {
  return std::make_unique<StaleSteps>(ranks, how, trainer, first, std::move(replay));
}

}  // namespace trireme

// Who makes and who reads each crossing of each microbatch follows from the pipeline's turns alone.
#include "trireme/program/stage_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// From a stage to another, in the order in which they are sent.
struct Message {
  int sent_at = 0;  // the turn of the sender that makes it
  int crossing = 0;
  int64_t microbatch = 0;
  int from = 0, to = 0;
  int needed_at = 0;  // the receiver's first turn that reads it
  int asked_at = 0;   // the receiver's turn before which it is asked for
};

class Orders {
 public:
  Orders(const Pipeline& pipeline, const std::vector<Crossing>& crossings)
      : pipeline_(pipeline), crossings_(crossings) {
    for (size_t stage = 0; stage < pipeline.order.size(); ++stage) {
      const std::vector<ChunkTurn>& turns = pipeline.order[stage];
      for (size_t i = 0; i < turns.size(); ++i) {
        std::vector<Place>& places = places_[{turns[i].phase, turns[i].chunk}];
        places.resize(std::max(places.size(), static_cast<size_t>(turns[i].microbatch) + 1));
        places[turns[i].microbatch] = {static_cast<int>(stage), static_cast<int>(i)};
      }
    }
    find_messages();
  }

  StageOrder of(int stage) const {
    StageOrder order;
    const std::vector<ChunkTurn>& turns = pipeline_.order[stage];
    std::vector<std::vector<const Message*>> asked(turns.size()), sent(turns.size());
    for (const Message& message : messages_) {
      if (message.to == stage) asked[message.asked_at].push_back(&message);
      if (message.from == stage) sent[message.sent_at].push_back(&message);
    }
    using Kind = StageOrder::Item::Kind;
    for (size_t i = 0; i < turns.size(); ++i) {
      for (const Message* m : asked[i])
        order.items.push_back({Kind::kReceive, {}, m->crossing, m->microbatch, m->from});
      order.items.push_back({.kind = Kind::kRun, .turn = turns[i]});
      for (const Message* m : sent[i])
        order.items.push_back({Kind::kSend, {}, m->crossing, m->microbatch, m->to});
    }
    for (size_t c = 0; c < crossings_.size(); ++c) order.slots.push_back(slots(stage, static_cast<int>(c)));
    level(order.slots);
    return order;
  }

 private:
  struct Place {
    int stage = -1, turn = 0;
  };
  // By microbatch, of all of a step.
  const std::vector<Place>& places(Phase phase, int chunk) const {
    const auto found = places_.find({phase, chunk});
    TRIREME_CHECK((found != places_.end()));
    TRIREME_CHECK(found->second.size() >= static_cast<size_t>(pipeline_.microbatches));
    return found->second;
  }
  // Of those that make a crossing and read it; there are thousands of microbatches, and few readers.
  struct Ends {
    const std::vector<Place>* made;
    std::vector<const std::vector<Place>*> read;
  };
  Ends ends_of(const Crossing& crossing) const {
    Ends ends{&places(crossing.phase, crossing.chunk), {}};
    for (const auto& [chunk, phase] : crossing.readers) ends.read.push_back(&places(phase, chunk));
    return ends;
  }

  void find_messages() {
    for (size_t c = 0; c < crossings_.size(); ++c) {
      const Ends ends = ends_of(crossings_[c]);
      for (int64_t m = 0; m < pipeline_.microbatches; ++m) {
        const Place made = (*ends.made)[m];
        std::map<int, int> first_read;  // by stage
        for (const std::vector<Place>* places : ends.read) {
          const Place read = (*places)[m];
          if (read.stage == made.stage) continue;
          const auto [found, is_new] = first_read.emplace(read.stage, read.turn);
          found->second = std::min(found->second, read.turn);
        }
        for (const auto& [stage, turn] : first_read)
          messages_.push_back({made.turn, static_cast<int>(c), m, made.stage, stage, turn, 0});
      }
    }
    std::ranges::stable_sort(
        messages_, {}, [](const Message& m) { return std::tuple(m.sent_at, m.crossing, m.microbatch); });
    // What was sent before something that is needed earlier is asked for as early.
    std::map<std::pair<int, int>, int> earliest;  // by sender and receiver, of what is sent later
    for (size_t i = messages_.size(); i-- > 0;) {
      Message& message = messages_[i];
      const auto [found, is_new] = earliest.emplace(std::pair(message.from, message.to), message.needed_at);
      found->second = std::min(found->second, message.needed_at);
      message.asked_at = std::max(0, found->second - 1);
    }
    of_crossing_.resize(crossings_.size());
    for (const Message& message : messages_) of_crossing_[message.crossing].push_back(&message);
  }

  // The turns from the first that a stage has a microbatch of a crossing to the last; first > last: never.
  struct Stay {
    int first = std::numeric_limits<int>::max(), last = -1;
  };
  std::vector<Stay> stays(int stage, int number) const {
    const Ends ends = ends_of(crossings_[number]);
    std::vector<Stay> stays(pipeline_.microbatches);
    for (int64_t m = 0; m < pipeline_.microbatches; ++m) {
      const Place made = (*ends.made)[m];
      Stay& stay = stays[m];
      // A turn longer, for who sends it.
      if (made.stage == stage) stay = {made.turn, made.turn + 1};
      for (const std::vector<Place>* places : ends.read) {
        const Place read = (*places)[m];
        if (read.stage == stage) stay.last = std::max(stay.last, read.turn);
      }
    }
    for (const Message* message : of_crossing_[number]) {
      if (message->to == stage) stays[message->microbatch].first = message->asked_at;
    }
    return stays;
  }

  static bool fits(const std::vector<Stay>& stays, int slots) {
    std::vector<int> free_after(slots, -1);
    std::vector<size_t> order(stays.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t m) { return stays[m].first; });
    for (size_t m : order) {
      if (stays[m].last < 0) continue;
      int& free = free_after[m % slots];
      if (stays[m].first <= free) return false;
      free = stays[m].last;
    }
    return true;
  }

  int slots(int stage, int crossing) const {
    const std::vector<Stay> all = stays(stage, crossing);
    if (std::ranges::all_of(all, [](const Stay& stay) { return stay.last < 0; })) return 0;
    int slots = 1;
    while (!fits(all, slots)) ++slots;
    return slots;
  }

  // A segment is prepared once for each combination of its states' slots. Where these are too many, states
  // with several slots get as many as the one that needs most.
  static void level(std::vector<int>& slots) {
    constexpr int kMostCombinations = 64;
    int combinations = 1;
    for (int n : slots) {
      if (combinations <= kMostCombinations) combinations = std::lcm(combinations, std::max(1, n));
    }
    if (combinations <= kMostCombinations) return;
    const int most = std::ranges::max(slots);
    for (int& n : slots) {
      if (n > 1) n = most;
    }
  }

  const Pipeline& pipeline_;
  const std::vector<Crossing>& crossings_;
  std::map<std::pair<Phase, int>, std::vector<Place>> places_;  // of a phase and chunk, by microbatch
  std::vector<Message> messages_;
  std::vector<std::vector<const Message*>> of_crossing_;
};

}  // namespace

StageOrder stage_order(const Pipeline& pipeline, const std::vector<Crossing>& crossings, int stage) {
  return Orders(pipeline, crossings).of(stage);
}

}  // namespace trireme

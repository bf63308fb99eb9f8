// Who makes and who reads each crossing of each microbatch follows from the pipeline's turns alone. Those of
// an asynchronous one are looked at over so many steps that all that is ever under way together is seen.
#include "trireme/program/stage_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
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
  int step = 0;       // in which both is done; −1: before the first
};

struct Place {
  int stage = -1, turn = 0;
};
// Of a phase and chunk, in all of a step.
struct Places {
  std::vector<Place> of_microbatch;
  std::set<int> stages;
};

// Steps that are looked at.
int64_t horizon(const Pipeline& pipeline) {
  if (!is_asynchronous(pipeline)) return 1;
  int64_t ahead = 0;
  for (const std::vector<ChunkTurn>& turns : pipeline.order) {
    for (const ChunkTurn& turn : turns) ahead = std::max(ahead, turn.microbatch / pipeline.microbatches);
  }
  return 3 * ahead + 4;
}

}  // namespace

class StageOrders::Orders {
 public:
  Orders(const Pipeline& pipeline, const std::vector<Crossing>& crossings)
      : of_step_(pipeline),
        unrolled_(unroll_with_begins(pipeline, horizon(pipeline))),
        pipeline_(unrolled_.whole),
        crossings_(crossings) {
    for (size_t stage = 0; stage < pipeline_.order.size(); ++stage) {
      const std::vector<ChunkTurn>& turns = pipeline_.order[stage];
      for (size_t i = 0; i < turns.size(); ++i) {
        auto& [places, stages] = places_[{turns[i].phase, turns[i].chunk}];
        places.resize(std::max(places.size(), static_cast<size_t>(turns[i].microbatch) + 1));
        places[turns[i].microbatch] = {static_cast<int>(stage), static_cast<int>(i)};
        stages.insert(static_cast<int>(stage));
      }
    }
    find_messages();
  }

  StageOrder of(int stage) const {
    StageOrder order;
    for (size_t c = 0; c < crossings_.size(); ++c) order.slots.push_back(slots(stage, static_cast<int>(c)));
    level(order.slots);
    const Versions versions = versions_of(stage);
    order.kept = versions.kept;
    for (int slot = 0; slot < versions.kept; ++slot)
      order.fill.push_back({.kind = StageOrder::Item::Kind::kKeep, .microbatch = slot});
    add_items(order.fill, stage, -1, versions);
    add_items(order.items, stage, 0, versions);
    return order;
  }

 private:
  using Item = StageOrder::Item;
  // Which weights the turns of a step read.
  struct Versions {
    std::vector<Item::Weights> of_turn;
    Item::Weights to_fill = Item::Weights::kNewest;  // all are the same then
    int kept = 0;
    int64_t kept_for = 0;  // the first microbatch that reads those which the step's update replaces
  };
  Versions versions_of(int stage) const {
    const int64_t microbatches = of_step_.microbatches;
    Versions result;
    int64_t newest = 0, oldest = 0;
    bool forward_newest = false;
    for (const ChunkTurn& turn : of_step_.order[stage]) {
      if (turn.phase == Phase::kUpdate) newest = turn.version;
      const bool old = turn.version < newest;
      result.of_turn.push_back(old ? Item::Weights::kKept : Item::Weights::kNewest);
      forward_newest |= turn.phase == Phase::kForward && !old;
      if (!old) continue;
      // A turn that reads version v has a fellow that reads version 0 in the step −v.
      const int64_t fellow = turn.microbatch - turn.version * microbatches;
      result.kept_for = result.kept == 0 ? fellow : std::min(result.kept_for, fellow);
      oldest = std::min(oldest, turn.version);
      result.kept = static_cast<int>(-oldest);
    }
    if (!forward_newest) result.to_fill = Item::Weights::kKept;
    // Or two microbatches of a step that read one version would look for it in two slots.
    TRIREME_CHECK((result.kept <= 1 || microbatches == 1));
    return result;
  }

  // The turns of a step on a stage: from, to. −1: what fills the pipeline before the first.
  std::pair<int, int> range(int stage, int step) const {
    const std::vector<int>& begins = unrolled_.begins[stage];
    return {step < 0 ? 0 : begins[step], begins[step + 1]};
  }
  int step_of(int stage, int turn) const {
    const std::vector<int>& begins = unrolled_.begins[stage];
    return static_cast<int>(std::ranges::upper_bound(begins, turn) - begins.begin()) - 1;
  }

  void add_items(std::vector<Item>& items, int stage, int step, const Versions& versions) const {
    const auto [from, to] = range(stage, step);
    std::vector<std::vector<const Message*>> asked(to - from + 1), sent(to - from);
    for (const Message* message : of_stage_[stage]) {
      if (message->step != step) continue;
      if (message->to == stage) asked[message->asked_at - from].push_back(message);
      if (message->from == stage) sent[message->sent_at - from].push_back(message);
    }
    using Kind = Item::Kind;
    const auto add_asked = [&](int place) {
      for (const Message* m : asked[place])
        items.push_back({Kind::kReceive, {}, m->crossing, m->microbatch, m->from});
    };
    for (int i = 0; i < to - from; ++i) {
      add_asked(i);
      const ChunkTurn& turn = pipeline_.order[stage][from + i];
      if (turn.phase == Phase::kUpdate && versions.kept > 0)
        items.push_back({.kind = Kind::kKeep, .microbatch = versions.kept_for});
      items.push_back(
          {.kind = Kind::kRun, .turn = turn, .weights = step < 0 ? versions.to_fill : versions.of_turn[i]});
      for (const Message* m : sent[i]) items.push_back({Kind::kSend, {}, m->crossing, m->microbatch, m->to});
    }
    add_asked(to - from);
  }

  const Places& places(Phase phase, int chunk) const {
    const auto found = places_.find({phase, chunk});
    TRIREME_CHECK((found != places_.end()));
    TRIREME_CHECK(found->second.of_microbatch.size() >= static_cast<size_t>(pipeline_.microbatches));
    return found->second;
  }
  // Of those that make a crossing and read it; there are thousands of microbatches, and few readers.
  struct Ends {
    const Places* made;
    std::vector<const Places*> read;

    bool are_on(int stage) const {
      return made->stages.contains(stage) ||
             std::ranges::any_of(read, [&](const Places* places) { return places->stages.contains(stage); });
    }
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
        const Place made = ends.made->of_microbatch[m];
        std::map<int, int> first_read;  // by stage
        for (const Places* places : ends.read) {
          const Place read = places->of_microbatch[m];
          if (read.stage == made.stage) continue;
          const auto [found, is_new] = first_read.emplace(read.stage, read.turn);
          found->second = std::min(found->second, read.turn);
        }
        for (const auto& [stage, turn] : first_read)
          messages_.push_back({made.turn, static_cast<int>(c), m, made.stage, stage, turn});
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
      message.step = step_of(message.from, message.sent_at);
      const auto [from, to] = range(message.to, message.step);
      message.asked_at = std::clamp(found->second - 1, from, to);
    }
    of_crossing_.resize(crossings_.size());
    of_stage_.resize(pipeline_.order.size());
    for (const Message& message : messages_) {
      of_crossing_[message.crossing].push_back(&message);
      of_stage_[message.from].push_back(&message);
      of_stage_[message.to].push_back(&message);
    }
  }

  // The turns from the first that a stage has a microbatch of a crossing to the last; first > last: never.
  struct Stay {
    int first = std::numeric_limits<int>::max(), last = -1;
  };
  std::vector<Stay> stays(int stage, int number, const Ends& ends) const {
    std::vector<Stay> stays(pipeline_.microbatches);
    for (int64_t m = 0; m < pipeline_.microbatches; ++m) {
      const Place made = ends.made->of_microbatch[m];
      Stay& stay = stays[m];
      // The sender keeps it for one turn more.
      if (made.stage == stage) stay = {made.turn, made.turn + 1};
      for (const Places* places : ends.read) {
        const Place read = places->of_microbatch[m];
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
    const Ends ends = ends_of(crossings_[crossing]);
    if (!ends.are_on(stage)) return 0;
    const std::vector<Stay> all = stays(stage, crossing, ends);
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

  const Pipeline of_step_;
  const Unrolled unrolled_;
  const Pipeline& pipeline_;  // all of its steps
  const std::vector<Crossing> crossings_;
  std::map<std::pair<Phase, int>, Places> places_;  // of a phase and chunk
  std::vector<Message> messages_;
  std::vector<std::vector<const Message*>> of_crossing_, of_stage_;  // in the order of all messages
};

StageOrders::StageOrders(const Pipeline& pipeline, const std::vector<Crossing>& crossings)
    : orders_(std::make_shared<const Orders>(pipeline, crossings)) {}

StageOrder StageOrders::of(int stage) const {
  return orders_->of(stage);
}

}  // namespace trireme

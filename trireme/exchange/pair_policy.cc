// Ranks that average in pairs (arrival_policy.h). One who asks sends its weights and goes on; one who
// answers, behind a step of its own, sends back what it has and moves half of the way towards what came; the
// first then moves as far the other way. Nobody waits, and what all have together changes by their steps
// alone.
#include <algorithm>

#include "trireme/exchange/arrival_policy.h"
#include "trireme/exchange/gossip.h"
#include "trireme/exchange/mixed.h"

namespace trireme {
namespace {

class PairPolicy : public ArrivalPolicy {
 public:
  using ArrivalPolicy::ArrivalPolicy;
  void start(int64_t step) final { driver_.update(step, 0); }

 protected:
  // Makes the message that says so.
  void make(When::What message, float status, int64_t slot = 0) {
    driver_.set(kStatus, status);
    driver_.run(message, slot);
  }
};

class AskingPolicy final : public PairPolicy {
 public:
  AskingPolicy(PartnerDraw draw, ListDriver& driver) : PairPolicy(driver), draw_(std::move(draw)) {}

  void begin() override {}

  bool hear(int64_t step) override {
    if (const std::optional<float> status = asked_rank_ >= 0 ? driver_.take(asked_rank_) : std::nullopt) {
      settle(*status);
      driver_.note_staleness(step - asked_at_);
    }
    if (asked_rank_ < 0) ask(step);
    return true;
  }

  void end(Why why) override {
    if (asked_rank_ >= 0) settle(driver_.take_first_of({asked_rank_}).status);
    make(When::What::kOffer, why == Why::kStopped ? kRunStops : kNoMoreComes);
    for (const int partner : draw_.partners()) driver_.begin_telling(partner);
  }

 private:
  void ask(int64_t step) {
    asked_rank_ = draw_.at(step);
    asked_at_ = step;
    make(When::What::kOffer, 0);
    driver_.begin_telling(asked_rank_);
    driver_.expect(asked_rank_);
  }
  void settle(float status) {
    asked_ |= status == kRunStops;
    driver_.run(When::What::kSettle);
    asked_rank_ = -1;
  }

  const PartnerDraw draw_;
  int asked_rank_ = -1;  // the partner whose answer is to come
  int64_t asked_at_ = 0;
};

class AnsweringPolicy final : public PairPolicy {
 public:
  AnsweringPolicy(const std::vector<int>& partners, ListDriver& driver)
      : PairPolicy(driver), all_(partners), there_(partners) {}

  void begin() override {
    for (const int partner : all_) driver_.expect(partner);
  }

  bool hear(int64_t) override {
    for (const int partner : std::vector(there_)) {
      if (const std::optional<float> status = driver_.take(partner)) answer(partner, *status, 0);
    }
    return true;
  }

  bool is_replayed_at_end() const override { return true; }

  // Others may have steps to make still, and ask until they are through.
  void end(Why why) override {
    while (!there_.empty()) {
      const ListDriver::Arrival arrival = driver_.take_first_of(there_);
      answer(arrival.rank, arrival.status, why == Why::kStopped ? kRunStops : 0);
    }
  }

 private:
  void answer(int partner, float status, float own_status) {
    asked_ |= status == kRunStops;
    if (status < 0) {
      std::erase(there_, partner);
      return;
    }
    // The lists of messages have the slot of the partner.
    make(When::What::kAnswer, own_status, std::ranges::find(all_, partner) - all_.begin());
    driver_.begin_telling(partner);
    driver_.expect(partner);
  }

  const std::vector<int> all_;
  std::vector<int> there_;  // that may ask again
};

}  // namespace

std::unique_ptr<ArrivalPolicy> mixed_policy(const PolicyPlace& place, ListDriver& driver) {
  return place.agreement.pace() == Agreement::Pace::kOwn ? pair_policy(place, driver)
                                                         : stale_policy(place, driver);
}

std::unique_ptr<ArrivalPolicy> pair_policy(const PolicyPlace& place, ListDriver& driver) {
  const ExchangeSettings& settings = place.agreement.settings();
  const GossipGraph graph = gossip_graph(settings.word("graph"));
  if (!asks(graph, place.ranks, place.rank))
    return std::make_unique<AnsweringPolicy>(partners(graph, place.ranks, place.rank), driver);
  const auto seed = static_cast<uint64_t>(settings.whole("seed"));
  return std::make_unique<AskingPolicy>(PartnerDraw(graph, place.ranks, place.rank, seed), driver);
}

}  // namespace trireme

// Ranks that average in pairs (gossip_steps.h). One who asks sends its weights and goes on; one who answers,
// behind a step of its own, sends back what it has and moves half of the way towards what came; the first
// then moves as far the other way. Nobody waits, and what all have together changes by their steps alone.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/gossip.h"
#include "trireme/exchange/mixed.h"
#include "trireme/train/gossip_steps.h"

namespace trireme {
namespace {

std::vector<int> partners_in(const RankOptions& ranks, const Agreement& how) {
  return partners(gossip_graph(how.settings().word("graph")), ranks.plan.mesh.ranks(), ranks.rank);
}

float news_of_end(GossipSteps::Why why) {
  return why == GossipSteps::Why::kStopped ? kRunStops : kNoMoreComes;
}

class AskingSteps final : public GossipSteps {
 public:
  AskingSteps(const RankOptions& ranks, const Agreement& how, Trainer& trainer, std::optional<Order> replay)
      : GossipSteps(ranks, how, trainer, std::move(replay)),
        draw_(gossip_graph(how.settings().word("graph")), ranks_, rank_,
              static_cast<uint64_t>(how.settings().whole("seed"))) {}

 private:
  StepResult update(int64_t step, double rate) override {
    StepResult result = trainer_.update_alone(step, rate);
    if (takes_answer()) {
      settle();
      note_staleness(step - asked_at_);
    }
    if (asked_ < 0) ask(step);
    return result;
  }

  bool takes_answer() {
    if (!replays()) return asked_ >= 0 && communicator_.try_wait(memory(kReplyState, 0));
    const Arrivals& taken = replayed();
    if (taken.empty()) return false;
    if (taken != Arrivals{asked_}) refuse_replay(taken[0], "which was not asked");
    communicator_.wait(memory(kReplyState, 0));
    return true;
  }

  void ask(int64_t step) {
    asked_ = draw_.at(step);
    asked_at_ = step;
    trainer_.tell(kNews, 0);
    trainer_.run_list(When::asked(When::What::kOffer));
    begin(When::tell(asked_));
    begin(When::arrival(asked_));
  }

  void settle() {
    note_arrival(asked_, news_in(kReplyState, 0));
    communicator_.wait(memory(kOfferState, 0));  // it was answered
    trainer_.run_list(When::asked(When::What::kSettle));
    asked_ = -1;
  }

  void end(Why why) override {
    if (asked_ >= 0) {
      communicator_.wait(memory(kReplyState, 0));
      settle();
    }
    trainer_.tell(kNews, news_of_end(why));
    trainer_.run_list(When::asked(When::What::kOffer));
    for (const int partner : draw_.partners()) begin(When::tell(partner));
    for (size_t i = 0; i < draw_.partners().size(); ++i) communicator_.wait(memory(kOfferState, 0));
  }

  const PartnerDraw draw_;
  int asked_ = -1;  // the partner whose answer is to come
  int64_t asked_at_ = 0;
};

class AnsweringSteps final : public GossipSteps {
 public:
  AnsweringSteps(const RankOptions& ranks, const Agreement& how, Trainer& trainer,
                 std::optional<Order> replay)
      : GossipSteps(ranks, how, trainer, std::move(replay)) {
    for (const int rank : partners_in(ranks, how)) partners_.push_back({.rank = rank});
    for (size_t i = 0; i < partners_.size(); ++i) expect(i);
  }

 private:
  struct Partner {
    int rank;
    bool over = false, answer_under_way = false;
  };

  StepResult update(int64_t step, double rate) override {
    StepResult result = trainer_.update_alone(step, rate);
    if (replays()) {
      for (const int rank : replayed()) answer_replayed(rank);
      return result;
    }
    for (size_t i = 0; i < partners_.size(); ++i) {
      if (!partners_[i].over && communicator_.try_wait(memory(kOfferState, slot(i)))) answer(i);
    }
    return result;
  }

  // Others may have steps to make still, and ask until they are through.
  void end(Why why) override {
    stops_ = why == Why::kStopped;
    if (replays()) {
      for (const int rank : replayed()) answer_replayed(rank);
    }
    for (std::vector<size_t> left = still_there(); !left.empty(); left = still_there()) {
      if (replays()) refuse_replay(partners_[left[0]].rank, "but not its last");
      std::vector<const std::byte*> awaiting;
      for (const size_t i : left) awaiting.push_back(memory(kOfferState, slot(i)));
      answer(left[communicator_.wait_any(awaiting).number]);
    }
    for (size_t i = 0; i < partners_.size(); ++i) wait_for_answer(i);
  }

  std::vector<size_t> still_there() const {
    std::vector<size_t> left;
    for (size_t i = 0; i < partners_.size(); ++i) {
      if (!partners_[i].over) left.push_back(i);
    }
    return left;
  }

  void answer_replayed(int rank) {
    const auto found = std::ranges::find(partners_, rank, &Partner::rank);
    if (found == partners_.end() || found->over)
      refuse_replay(rank, found == partners_.end() ? "which is no partner" : "which asks no more");
    const auto number = static_cast<size_t>(found - partners_.begin());
    communicator_.wait(memory(kOfferState, slot(number)));
    answer(number);
  }

  void answer(size_t number) {
    Partner& partner = partners_[number];
    const float news = news_in(kOfferState, slot(number));
    note_arrival(partner.rank, news);
    partner.over = news < 0;
    if (partner.over) return;
    wait_for_answer(number);  // to its last question; it has it, or it would not have asked again
    trainer_.tell(kNews, stops_ ? kRunStops : 0);
    trainer_.run_list(When::asked(When::What::kAnswer), slot(number));
    begin(When::tell(partner.rank));
    partner.answer_under_way = true;
    expect(number);
  }

  void wait_for_answer(size_t number) {
    if (std::exchange(partners_[number].answer_under_way, false))
      communicator_.wait(memory(kReplyState, slot(number)));
  }

  static int64_t slot(size_t number) { return static_cast<int64_t>(number); }
  // The lists of messages have the slot of the partner.
  void expect(size_t number) { begin(When::arrival(partners_[number].rank)); }

  std::vector<Partner> partners_;
  bool stops_ = false;
};

}  // namespace

std::unique_ptr<GossipSteps> make_pair_steps(const RankOptions& ranks, const Agreement& how, Trainer& trainer,
                                             std::optional<GossipSteps::Order> replay) {
  if (asks(gossip_graph(how.settings().word("graph")), ranks.plan.mesh.ranks(), ranks.rank))
    return std::make_unique<AskingSteps>(ranks, how, trainer, std::move(replay));
  return std::make_unique<AnsweringSteps>(ranks, how, trainer, std::move(replay));
}

}  // namespace trireme

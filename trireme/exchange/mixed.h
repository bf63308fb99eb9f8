// Weights, and with them running statistics, that a rank mixes with those of some others in every step, or
// whenever it hears of one (the gossip of plan/agreement.h): what of it stands in the update, and the
// segments, messages and lists besides. All of a rank's weights go in one message.
//
// In lockstep, all ranks run the list `exchange` (or `push0`, `push1`, …) behind each step. Ranks at their
// own pace have it too, but run these instead, as messages come (arrival_policy.h):
//
//   d_psgd, staleness > 0   from R to S   a message of its own weights, in one of sending_slots(), to S, or
//                                         from R into one of the two slots of that neighbour
//                           mix           what is in a slot
//   ad_psgd, who asks       offer         its weights into a message
//                           from R to S   that message to a partner, or its answer
//                           settle        half of what the answer differs from the message by
//   ad_psgd, who answers    from R to S   the message of R into a slot of its own, or the answer to it
//                           answer        its own weights, and half of what that message differs from them by
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/exchange/agreement_record.h"
#include "trireme/exchange/own_states.h"

namespace trireme {

inline constexpr std::string_view kMixedState = "exchange.mixed";  // what neighbours get
// Of who averages in pairs: what the one who asks sends, and what it gets.
inline constexpr std::string_view kOfferState = "exchange.offer", kReplyState = "exchange.reply";
// The last number of a message at one's own pace; in one of weights, the step (counted from 1) instead. None
// of those that say so has weights that count.
inline constexpr float kNoMoreComes = -1, kRunStops = -2;
// Input of `offer` and `answer`: that number, or 0.
inline constexpr std::string_view kStatus = "status";

// Slots of kMixedState: the first so many are sent in turn, behind them lie two for each neighbour.
int sending_slots(const Agreement& how);
int receiving_slot(const Agreement& how, size_t neighbour, int which);

class Mixing {
 public:
  // Which are mixed: parameters and buffers. All that is given outlives it.
  Mixing(const Agreement& how, const std::vector<Value>& states, OwnStates& own, const OpTable& ops)
      : how_(how), states_(states), own_(own), ops_(ops) {}

  // In the update: what becomes of a state, which the step would change from one value to another; and,
  // behind all of them, what is sent.
  void add_step(Builder& b, const Value& state, ValueId before, ValueId after);
  void end_update(Builder& b);
  // All that is not in the update.
  void add_to(AgreedSteps& steps);
  // Of a rank that pushes: how much of one rank's weights its own are, [1].
  ValueId weight(Builder& b);

 private:
  bool pushes() const { return how_.way() == ExchangeKind::Of::kPushes; }
  bool pairs() const { return how_.way() == ExchangeKind::Of::kPairs; }
  int replicas() const { return static_cast<int>(own_.replicas()); }
  int replica() const { return static_cast<int>(own_.replica()); }
  std::vector<int> around() const;
  ValueId message(Builder& b, std::string_view name) const;
  ValueId with_status(Builder& b, std::vector<ValueId> weights) const;
  void add_gossip(AgreedSteps& steps);
  void add_pushes(AgreedSteps& steps);
  void add_pairs(AgreedSteps& steps);
  void add_asking(AgreedSteps& steps);
  void add_answering(AgreedSteps& steps);
  enum class Slots { kOne, kOneEach };
  void add_messages(AgreedSteps& steps, std::string_view sent, std::string_view taken, Slots slots);
  template <typename Body>
  void add_segment(AgreedSteps& steps, std::string_view name, const Body& body);

  const Agreement& how_;
  const std::vector<Value>& states_;
  OwnStates& own_;
  const OpTable& ops_;
  std::map<std::string, ValueId, std::less<>> shares_;  // of weights, that are sent
};

}  // namespace trireme

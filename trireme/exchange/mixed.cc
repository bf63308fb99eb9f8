// See mixed.h.
#include "trireme/exchange/mixed.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/gossip.h"
#include "trireme/exchange/packed.h"

namespace trireme {
namespace {

constexpr TensorType kStatusType{DType::f32, {}};
constexpr std::string_view kMixSegment = "mix", kOfferSegment = "offer", kSettleSegment = "settle",
                           kAnswerSegment = "answer";
constexpr int kSlotsOfNeighbour = 2;  // what was heard last, and what is to come

GossipGraph graph_of(const Agreement& how) {
  return gossip_graph(how.settings().word("graph"));
}

// Of the list in which one message goes from a rank to another, on both ends.
std::string message_list(int from, int to) {
  return fmt::format("from{}to{}", from, to);
}

ValueId half_of_difference(Builder& b, ValueId to, ValueId from) {
  return b.op("affine", {b.op("sub", {to, from})}, {{"scale", 0.5}});
}

}  // namespace

// A neighbour takes what is sent in its own steps, and may be as many of them behind.
int sending_slots(const Agreement& how) {
  return static_cast<int>(how.staleness()) + 1;
}
int receiving_slot(const Agreement& how, size_t neighbour, int which) {
  return sending_slots(how) + kSlotsOfNeighbour * static_cast<int>(neighbour) + which;
}

std::vector<int> Mixing::around() const {
  return pairs() ? partners(graph_of(how_), replicas(), replica())
                 : neighbours(graph_of(how_), replicas(), replica());
}

// At one's own pace: what is sent to each of the others and taken from it, in one slot or one for each.
void Mixing::add_messages(AgreedSteps& steps, std::string_view sent, std::string_view taken, Slots slots) {
  const std::vector<int> others = around();
  for (size_t i = 0; i < others.size(); ++i) {
    const int slot = slots == Slots::kOne ? 0 : static_cast<int>(i), other = others[i];
    steps.lists.push_back(
        {message_list(replica(), other), {Action::send(std::string(sent), other, slot)}, When::tell(other)});
    steps.lists.push_back({message_list(other, replica()),
                           {Action::receive(std::string(taken), other, slot)},
                           When::arrival(other)});
  }
}

ValueId Mixing::weight(Builder& b) {
  return own_.keep(b, "weight", OwnStates::Of::kReplica, "ones");
}

ValueId Mixing::message(Builder& b, std::string_view name) const {
  int64_t elements = pushes() || !how_.is_in_step() ? 1 : 0;
  for (const Value& state : states_) elements += state.type.shape.elements();
  return b.state(std::string(name), {DType::f32, {elements}}, Role::kMessage);
}

// What goes to each of the others is also what stays: shares are equal. The step is made on what stays, from
// the weights that its gradient is of. Of a buffer, what it has become is shared: a step on what stays could
// make a variance negative.
void Mixing::add_step(Builder& b, const Value& state, ValueId before, ValueId after) {
  if (pairs()) return b.update(before, after);
  const Builder::Scope scope(b, "exchange");
  const bool is_buffer = state.role == Role::kBuffer;
  const ValueId step = is_buffer ? kNoValue : b.op("sub", {after, before});
  ValueId& shared = shares_[state.name];
  if (how_.way() == ExchangeKind::Of::kNeighbours) {
    const double share = 1.0 / static_cast<double>(1 + around().size());
    shared = b.op("affine", {is_buffer ? after : before}, {{"scale", share}});
    b.update(before, is_buffer ? shared : b.op("add", {shared, step}));
    return;
  }
  ValueId whole = b.op("mul", {is_buffer ? after : before, out_of_row(b, weight(b))});
  if (!is_buffer) whole = b.op("add", {whole, step});
  shared = b.op("affine", {whole}, {{"scale", 0.5}});
  b.update(before, shared);
}

void Mixing::end_update(Builder& b) {
  if (pairs()) return;
  const Builder::Scope scope(b, "exchange");
  std::vector<ValueId> parts;  // in the order of the message, by the names of states
  for (const Value& state : states_) parts.push_back(shares_.at(state.name));
  if (pushes()) {
    const ValueId all = weight(b), half = b.op("affine", {all}, {{"scale", 0.5}});
    b.update(all, half);
    parts.push_back(half);
  } else if (!how_.is_in_step()) {
    parts.push_back(b.graph().find("step"));
    TRIREME_CHECK(parts.back() != kNoValue);
  }
  b.update(message(b, kMixedState), packed(b, parts));
}

void Mixing::add_to(AgreedSteps& steps) {
  pairs() ? add_pairs(steps) : pushes() ? add_pushes(steps) : add_gossip(steps);
}

template <typename Body>
void Mixing::add_segment(AgreedSteps& steps, std::string_view name, const Body& body) {
  Builder b(ops_, std::string(name));
  body(b);
  steps.segments.emplace_back(b.take(), SegmentKind::kUpdate);
}

void Mixing::add_gossip(AgreedSteps& steps) {
  const std::string state(kMixedState), mix(kMixSegment);
  add_segment(steps, kMixSegment, [&](Builder& b) {
    Unpacked arrived(b, message(b, kMixedState));
    for (const Value& state : states_) {
      const ValueId own = b.declare(state);
      b.update(own, b.op("add", {own, arrived.next(state.type.shape)}));
    }
  });
  const bool paced = !how_.is_in_step();
  const std::vector<int> peers = around();
  const auto slot = [&](size_t i) { return paced ? receiving_slot(how_, i, 0) : static_cast<int>(i) + 1; };
  ActionList list{"exchange", {}, When::every(1)};
  for (const auto& [to, from] : gossip_rounds(graph_of(how_), replicas(), replica())) {
    const auto number = static_cast<size_t>(std::ranges::find(peers, from) - peers.begin());
    list.actions.push_back(Action::send(state, own_.rank_in(to)));
    list.actions.push_back(Action::receive(state, own_.rank_in(from), slot(number)));
  }
  for (size_t i = 0; i < peers.size(); ++i) list.actions.push_back(Action::run(mix, 0, slot(i)));
  steps.lists.push_back(std::move(list));
  steps.slots[state] = slot(peers.size());
  if (!paced) return;
  add_messages(steps, kMixedState, kMixedState, Slots::kOne);
  steps.lists.push_back({mix, {Action::run(mix)}, When::asked(When::What::kMix)});
}

// To another one in each step, in turn, so that after so many steps all have heard of all.
void Mixing::add_pushes(AgreedSteps& steps) {
  add_segment(steps, kMixSegment, [&](Builder& b) {
    std::vector<std::pair<ValueId, ValueId>> sums;  // of weights
    const ValueId own_weight = weight(b);
    Unpacked arrived(b, message(b, kMixedState));
    for (const Value& state : states_) {
      const ValueId own = b.declare(state);
      sums.emplace_back(own, b.op("add", {own, arrived.next(state.type.shape)}));
    }
    const ValueId sum = b.op("add", {own_weight, arrived.next({1})}), divisor = out_of_row(b, sum);
    b.update(own_weight, sum);
    for (const auto& [own, all] : sums) b.update(own, b.op("div", {all, divisor}));
  });
  steps.slots[std::string(kMixedState)] = 2;
  const std::vector<int> distances = push_distances(graph_of(how_), replicas());
  for (size_t i = 0; i < distances.size(); ++i) {
    ActionList list{
        fmt::format("push{}", i), {}, When::every(std::ssize(distances), static_cast<int64_t>(i) + 1)};
    const std::string state(kMixedState);
    list.actions.push_back(Action::send(state, own_.rank_in((replica() + distances[i]) % replicas())));
    list.actions.push_back(
        Action::receive(state, own_.rank_in((replica() + replicas() - distances[i]) % replicas()), 1));
    list.actions.push_back(Action::run(std::string(kMixSegment), 0, 1));
    steps.lists.push_back(std::move(list));
  }
}

ValueId Mixing::with_status(Builder& b, std::vector<ValueId> weights) const {
  weights.push_back(b.input(std::string(kStatus), kStatusType, Role::kScalar));
  return packed(b, weights);
}

// Both move towards each other by as much: what one gets of the difference, the other one gives, so that all
// weights together stay what they were however late it comes, and whatever the rank has changed meanwhile.
void Mixing::add_pairs(AgreedSteps& steps) {
  asks(graph_of(how_), replicas(), replica()) ? add_asking(steps) : add_answering(steps);
}

void Mixing::add_asking(AgreedSteps& steps) {
  const std::string offer(kOfferState), reply(kReplyState);
  add_segment(steps, kOfferSegment, [&](Builder& b) {
    std::vector<ValueId> weights;
    for (const Value& state : states_) weights.push_back(b.declare(state));
    b.update(message(b, kOfferState), with_status(b, weights));
  });
  add_segment(steps, kSettleSegment, [&](Builder& b) {
    Unpacked sent(b, message(b, kOfferState)), arrived(b, message(b, kReplyState));
    for (const Value& state : states_) {
      const ValueId own = b.declare(state), there = arrived.next(state.type.shape),
                    here = sent.next(state.type.shape);
      // Of a buffer, half of what is there: its own may have become less than half of what was sent.
      const ValueId from = state.role == Role::kBuffer ? own : here;
      b.update(own, b.op("add", {own, half_of_difference(b, there, from)}));
    }
  });
  const Action run_offer = Action::run(std::string(kOfferSegment)),
               settle = Action::run(std::string(kSettleSegment));
  for (const auto& [one, other] : apart_pairs(graph_of(how_), replicas())) {
    if (one == replica())
      steps.lists.push_back({"exchange",
                             {run_offer, Action::send(offer, other), Action::receive(reply, other), settle},
                             When::every(1)});
  }
  add_messages(steps, kOfferState, kReplyState, Slots::kOne);
  steps.lists.push_back({std::string(kOfferSegment), {run_offer}, When::asked(When::What::kOffer)});
  steps.lists.push_back({"settle", {settle}, When::asked(When::What::kSettle)});
}

void Mixing::add_answering(AgreedSteps& steps) {
  const std::string offer(kOfferState), reply(kReplyState), answer(kAnswerSegment);
  const std::vector<int> others = around();
  add_segment(steps, kAnswerSegment, [&](Builder& b) {
    Unpacked arrived(b, message(b, kOfferState));
    std::vector<ValueId> weights;
    for (const Value& state : states_) {
      const ValueId own = b.declare(state);
      weights.push_back(own);
      b.update(own, b.op("add", {own, half_of_difference(b, arrived.next(state.type.shape), own)}));
    }
    b.update(message(b, kReplyState), with_status(b, weights));
  });
  for (const auto& [one, other] : apart_pairs(graph_of(how_), replicas())) {
    if (other != replica()) continue;
    const int slot = static_cast<int>(std::ranges::find(others, one) - others.begin());
    steps.lists.push_back(
        {"exchange",
         {Action::receive(offer, one, slot), Action::run(answer, 0, slot), Action::send(reply, one, slot)},
         When::every(1)});
  }
  add_messages(steps, kReplyState, kOfferState, Slots::kOneEach);
  steps.lists.push_back({answer, {Action::run(answer)}, When::asked(When::What::kAnswer)});
  steps.slots[offer] = steps.slots[reply] = static_cast<int>(others.size());
}

}  // namespace trireme

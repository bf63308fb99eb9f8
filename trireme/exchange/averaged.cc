// Lets each replica go on by itself, and the replicas agree now and then: the update takes a replica's own
// gradient, and what they agree by are segments and messages of their own, in lists that are run every so
// many steps. A replica may be several ranks: all of this is element by element, so that each agrees on its
// own parts with those that have the same.
// What mixes weights with those of some others stands in mixed.cc.
#include <algorithm>
#include <map>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/exchange/agreement_record.h"
#include "trireme/exchange/method.h"
#include "trireme/exchange/mixed.h"
#include "trireme/exchange/packed.h"
#include "trireme/ir/verify.h"
#include "trireme/plan/clients.h"

namespace trireme {
namespace {

constexpr std::string_view kScaleOutput = "scale", kCountOutput = "count";
const std::string kFlight = fmt::format("{}flight", kKeptPrefix);  // what is added up while steps are made
// So that shares are equal where nobody has counted anything; less than half a unit of any count.
constexpr double kAlmostNothing = 1e-30;

using Way = ExchangeKind::Of;

class OwnStepsMaker {
 public:
  explicit OwnStepsMaker(const AgreeingRank& rank)
      : graph_(without_sums(rank.updates[0], replica_axis(rank.mesh), LeftOut::kAllSums, rank.ops)),
        how_(rank.agreement),
        ops_(rank.ops),
        own_(rank),
        replicas_(own_.replicas()),
        turns_(Clients(how_, replicas_).turns()) {
    for (const Value& value : graph_.values) {
      if (value.kind != Value::Kind::kState || !is_lasting(value.role)) continue;
      lasting_.push_back(value);
      if (is_agreed(value)) agreed_.push_back(value);
      if (value.role == Role::kParameter) parameters_.push_back(value);
    }
    for (const Value& parameter : parameters_) flights_[flight_of(parameter)].push_back(parameter);
    if (how_.kind() == Agreement::Kind::kMixed) mixing_.emplace(how_, agreed_, own_, ops_);
  }

  AgreedSteps run() {
    result_.update = update();
    if (mixing_)
      mixing_->add_to(result_);
    else if (how_.way() == Way::kOuterSteps)
      add_outer_step();
    else if (how_.way() == Way::kLateMeans)
      add_delayed();
    else
      add_average();
    add_meeting();
    for (const StepSegment& segment : result_.segments) debug_verify(segment.graph);
    result_.kept = own_.take();
    return std::move(result_);
  }

 private:
  static bool is_agreed(const Value& state) {
    return is_lasting(state.role) && state.role != Role::kOptimizer;
  }

  // With what becomes of a step that the ranks agree on otherwise.
  Graph update() {
    Graph own = graph_;
    const std::vector<Update> updates = std::exchange(own.updates, {});
    Builder b(ops_, std::move(own));
    for (const Update& update : updates) {
      const Value& state = graph_.values[update.state];
      if (how_.way() == Way::kLateMeans && state.role == Role::kParameter) {
        add_change(b, state, update.state, update.value);
        if (!corrects()) continue;
      }
      if (mixing_ && is_agreed(state)) {
        mixing_->add_step(b, state, update.state, update.value);
        continue;
      }
      b.update(update.state, update.value);
    }
    if (mixing_) mixing_->end_update(b);
    if (how_.way() == Way::kWeightedMeans) count_samples(b);
    debug_verify(b.graph());
    return b.take();
  }

  // Whether a rank makes its own steps at once, which the mean of all ranks' then takes the place of.
  bool corrects() const { return how_.settings().whole("correction") != 0; }

  // Adds what the step changes to what the steps before have.
  void add_change(Builder& b, const Value& parameter, ValueId before, ValueId after) {
    const Builder::Scope scope(b, "exchange");
    const ValueId change = keep(b, "change", parameter);
    b.update(change, b.op("add", {change, in_row(b, b.op("sub", {after, before}))}));
  }

  void count_samples(Builder& b) {
    const auto output = [&](std::string_view name) {
      const auto found = std::ranges::find(graph_.outputs, name, &Output::name);
      TRIREME_CHECK(found != graph_.outputs.end());
      return found->value;
    };
    const Builder::Scope scope(b, "exchange");
    const ValueId samples = keep_samples(b);
    const ValueId sum = b.op("add", {samples, in_row(b, output(kCountOutput))});
    b.update(samples, b.op("renew", {samples, sum, output(kScaleOutput)}));
  }

  using Of = OwnStates::Of;
  ValueId keep(Builder& b, std::string_view what, const Value& of, Of whose = Of::kReplica) {
    return own_.keep(b, what, of, whose);
  }
  ValueId keep_samples(Builder& b) { return own_.keep(b, "samples", Of::kReplica); }
  // The targets of the clients that a replica has been through with in this round.
  ValueId keep_finished(Builder& b) { return own_.keep(b, "finished", Of::kReplica); }

  // The part of the mean that this replica is, by the targets it has counted, or by the weight of what it
  // has; none where all are alike. `all`: what all have counted, where clients of before count too.
  struct Share {
    ValueId own = kNoValue, all = kNoValue;
  };
  Share own_share(Builder& b) {
    if (how_.way() == Way::kPushes)
      return {b.op("affine", {out_of_row(b, mixing_->weight(b))},
                   {{"scale", 1.0 / static_cast<double>(replicas_)}})};
    if (how_.way() != Way::kWeightedMeans) return {};
    const ValueId own =
        b.op("affine", {out_of_row(b, keep_samples(b))}, {{"scale", 1.0}, {"shift", kAlmostNothing}});
    if (turns_ == 1) return {b.op("div", {own, own_.summed(b, own)})};
    const ValueId all = own_.summed(b, b.op("add", {own, out_of_row(b, keep_finished(b))}));
    return {b.op("div", {own, all}), all};
  }
  ValueId mean(Builder& b, const Value& of, ValueId value, const Share& share) {
    if (share.own == kNoValue) return mean_of_sum(b, own_.summed(b, value, &of));
    ValueId part = b.op("mul", {value, share.own});
    if (share.all != kNoValue && is_agreed(of))
      part = b.op("add", {part, b.op("div", {out_of_row(b, keep(b, "before", of)), share.all})});
    return own_.summed(b, part, &of);
  }
  ValueId mean_of_sum(Builder& b, ValueId sum) {
    return b.op("affine", {sum}, {{"scale", 1.0 / static_cast<double>(replicas_)}});
  }

  template <typename Body>
  void add_segment(const std::string& name, const Body& body) {
    Builder b(ops_, name);
    body(b);
    result_.segments.emplace_back(b.take(), SegmentKind::kUpdate);
  }

  static std::vector<Action> runs(const std::vector<std::string>& segments) {
    std::vector<Action> actions;
    for (const std::string& segment : segments) actions.push_back(Action::run(segment));
    return actions;
  }

  void add_average() {
    add_segment("exchange", [&](Builder& b) {
      const Share share = own_share(b);
      for (const Value& state : agreed_) {
        const ValueId own = b.declare(state), met = mean(b, state, own, share);
        b.update(own, met);
        if (turns_ == 1) continue;
        b.update(keep(b, "anchor", state, Of::kAll), in_row(b, met));
        clear(b, keep(b, "before", state));
      }
      if (share.own == kNoValue) return;
      clear(b, keep_samples(b));
      if (turns_ > 1) clear(b, keep_finished(b));
    });
    if (turns_ > 1) add_turns();
    result_.lists.push_back({"exchange", runs({"exchange"}), When::every(how_.period() * turns_)});
  }

  static void clear(Builder& b, ValueId kept) { b.update(kept, b.op("affine", {kept}, {{"scale", 0.0}})); }

  // A replica that trains several clients in a round (plan/clients.h) starts each from what all have agreed
  // on last, and adds up what they have become.
  void add_turns() {
    add_segment("turn", [&](Builder& b) {
      const ValueId samples = keep_samples(b), finished = keep_finished(b);
      for (const Value& state : agreed_) {
        const ValueId own = b.declare(state), before = keep(b, "before", state);
        const ValueId added = b.op("mul", {own, out_of_row(b, samples)});
        b.update(before, b.op("add", {before, in_row(b, added)}));
        b.update(own, out_of_row(b, keep(b, "anchor", state, Of::kAll)));
      }
      b.update(finished, b.op("add", {finished, samples}));
      clear(b, samples);
    });
    for (int64_t turn = 1; turn < turns_; ++turn)
      result_.lists.push_back({fmt::format("turn{}", turn), runs({"turn"}),
                               When::every(how_.period() * turns_, how_.period() * turn)});
    add_beginning(agreed_);
  }

  // Nesterov's momentum on the way from where all were last to the mean, as if that were a gradient.
  void add_outer_step() {
    const double rate = how_.settings().real("outer_rate"), momentum = how_.settings().real("outer_momentum");
    add_segment("exchange", [&](Builder& b) {
      for (const Value& state : agreed_) {
        const ValueId own = b.declare(state);
        const ValueId met = mean(b, state, own, {});
        if (state.role != Role::kParameter) {
          b.update(own, met);
          continue;
        }
        const ValueId anchor = keep(b, "anchor", state, Of::kAll);
        const ValueId velocity = keep(b, "outer", state, Of::kAll);
        const ValueId difference = b.op("sub", {anchor, in_row(b, met)});
        const ValueId faster = b.op("add", {b.op("affine", {velocity}, {{"scale", momentum}}), difference});
        const ValueId step = b.op("add", {difference, b.op("affine", {faster}, {{"scale", momentum}})});
        const ValueId next = b.op("sub", {anchor, b.op("affine", {step}, {{"scale", rate}})});
        b.update(velocity, faster);
        b.update(anchor, next);
        b.update(own, out_of_row(b, next));
      }
    });
    result_.lists.push_back({"exchange", runs({"exchange"}), When::every(how_.period())});
    add_beginning(parameters_);
  }

  // All start from the same weights.
  void add_beginning(const std::vector<Value>& states) {
    add_segment("begin", [&](Builder& b) {
      for (const Value& state : states) {
        const ValueId own = b.declare(state);
        b.update(keep(b, "anchor", state, Of::kAll), in_row(b, own));
      }
    });
    result_.lists.push_back({"begin", runs({"begin"}), When::asked(When::What::kBegin)});
  }

  // What is under way is kept in as many places as there are periods in the delay. Its sum is begun when the
  // period ends and awaited when it is due, so that it travels while the steps between them are made.
  void add_delayed() {
    const int64_t delay = how_.delay(), period = how_.period();
    const int64_t places = std::max<int64_t>(1, (delay + period - 1) / period);
    for (int64_t place = 0; place < places; ++place) {
      add_segment(fmt::format("pack{}", place), [&](Builder& b) {
        for (const Value& parameter : parameters_) {
          const ValueId change = keep(b, "change", parameter);
          b.update(sent(b, parameter, place), change);
        }
      });
      if (delay > 0) add_flight(place);
      add_segment(fmt::format("arrive{}", place), [&](Builder& b) { add_arrivals(b, place, places); });
    }
    // Behind what takes it: a state does not become what another one was while that changes.
    add_segment("clear", [&](Builder& b) {
      for (const Value& parameter : parameters_) {
        clear(b, keep(b, "change", parameter));
      }
    });
    if (corrects()) add_beginning(parameters_);
    if (delay == 0) {
      result_.lists.push_back({"exchange", runs({"pack0", "clear", "arrive0"}), When::every(period)});
      return;
    }
    for (const auto& [name, parameters] : flights_) result_.slots[name] = static_cast<int>(places);
    // What arrives makes room for what is sent in the same step. A flight has a list of its own: a run that
    // goes on from a checkpoint begins it again (Trainer::begin_sums_again).
    const int64_t every = period * places;
    for (int64_t place = 0; place < places; ++place) {
      const int slot = static_cast<int>(place);
      ActionList arrive{fmt::format("arrive{}", place), {}, When::every(every, period * (place + 1) + delay)};
      for (const auto& [name, parameters] : flights_) arrive.actions.push_back(Action::await(name, slot));
      arrive.actions.push_back(Action::run(arrive.name, 0, slot));
      result_.lists.push_back(std::move(arrive));
    }
    for (int64_t place = 0; place < places; ++place) {
      const int slot = static_cast<int>(place);
      const int64_t first = period * (place + 1);
      result_.lists.push_back({fmt::format("pack{}", place), runs({fmt::format("pack{}", place), "clear"}),
                               When::every(every, first)});
      ActionList fly{fmt::format("fly{}", place), {}, When::every(every, first)};
      fly.actions.push_back(Action::run(fly.name, 0, slot));
      for (const auto& [name, parameters] : flights_) fly.actions.push_back(Action::reduce(name, slot));
      result_.lists.push_back(std::move(fly));
    }
  }

  ValueId sent(Builder& b, const Value& parameter, int64_t place) {
    return keep(b, fmt::format("sent{}", place), parameter);
  }
  // Ranks of one replica that have the same parameters send them among the same others, so that they are
  // added up in the same order (OwnStates::summed).
  std::string flight_of(const Value& parameter) const {
    if (own_.is_shared(parameter)) return fmt::format("{}.{}", kFlight, parameter.name);
    return own_.is_alike(parameter) ? kFlight + ".alike" : kFlight;
  }
  ValueId flight(Builder& b, const std::string& name) {
    int64_t elements = 0;
    for (const Value& parameter : flights_.at(name)) elements += parameter.type.shape.elements();
    return b.state(name, {DType::f32, {elements}}, Role::kMessage);
  }
  // A copy: what a rank has sent itself is needed until the mean takes its place.
  void add_flight(int64_t place) {
    add_segment(fmt::format("fly{}", place), [&](Builder& b) {
      for (const auto& [name, parameters] : flights_) {
        std::vector<ValueId> parts;
        for (const Value& parameter : parameters) parts.push_back(sent(b, parameter, place));
        b.update(flight(b, name), packed(b, parts));
      }
    });
  }

  // Running statistics stay each rank's own: their mean is the same whenever it is taken, and a sum that is
  // awaited here would cost the latency that the delay hides.
  //
  // With correction, a rank's weights are what all agree on and then what it alone has changed since: not its
  // own corrected by what differs, or replicas would come apart by rounding, more and more.
  void add_arrivals(Builder& b, int64_t place, int64_t places) {
    std::map<std::string, Unpacked> added_up;
    for (const auto& [name, parameters] : flights_) {
      if (how_.delay() > 0) added_up.try_emplace(name, b, flight(b, name));
    }
    for (const Value& state : parameters_) {
      const ValueId own = b.declare(state);
      const ValueId change_sent = sent(b, state, place);
      const ValueId arrived =
          mean_of_sum(b, how_.delay() > 0 ? in_row(b, added_up.at(flight_of(state)).next(state.type.shape))
                                          : own_.summed(b, change_sent, &state));
      if (!corrects()) {
        b.update(own, b.op("add", {own, out_of_row(b, arrived)}));
        continue;
      }
      const ValueId anchor = keep(b, "anchor", state, Of::kAll);
      const ValueId agreed = b.op("add", {anchor, arrived});
      ValueId since = keep(b, "change", state);
      for (int64_t other = 0; other < places; ++other) {
        if (other != place) since = b.op("add", {since, sent(b, state, other)});
      }
      b.update(anchor, agreed);
      b.update(own, out_of_row(b, b.op("add", {agreed, since})));
      clear(b, change_sent);
    }
  }

  void add_meeting() {
    add_segment("keep", [&](Builder& b) {
      for (const Value& state : lasting_) {
        const ValueId value = b.declare(state);
        b.update(keep(b, "own", state), in_row(b, value));
      }
    });
    add_segment("meet", [&](Builder& b) {
      const Share share = own_share(b);
      for (const Value& state : lasting_) {
        const ValueId value = b.declare(state);
        b.update(value, mean(b, state, value, state.role == Role::kOptimizer ? Share{} : share));
      }
    });
    add_segment("part", [&](Builder& b) {
      for (const Value& state : lasting_) {
        const ValueId value = b.declare(state);
        b.update(value, out_of_row(b, keep(b, "own", state)));
      }
    });
    result_.lists.push_back({"meet", runs({"keep", "meet"}), When::asked(When::What::kMeet)});
    result_.lists.push_back({"part", runs({"part"}), When::asked(When::What::kPart)});
  }

  const Graph graph_;  // the rank's own update
  const Agreement& how_;
  const OpTable& ops_;
  OwnStates own_;
  const int64_t replicas_;
  const int64_t turns_;                  // of clients that a replica trains in a round
  std::vector<Value> lasting_, agreed_;  // states; those that ranks agree on: weights and running statistics
  std::vector<Value> parameters_;
  std::map<std::string, std::vector<Value>> flights_;  // the parameters of each
  std::optional<Mixing> mixing_;                       // where weights are mixed with those of some others
  AgreedSteps result_;
};

AgreedSteps own_steps(const AgreeingRank& rank) {
  return OwnStepsMaker(rank).run();
}

}  // namespace

AgreementRecord averaged_record() {
  return {Agreement::Kind::kAveraged, AgreementRecord::States::kOwn, own_steps};
}
AgreementRecord mixed_record() {
  return {Agreement::Kind::kMixed, AgreementRecord::States::kOwn, own_steps, mixed_policy};
}

}  // namespace trireme

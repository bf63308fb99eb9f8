// See local_steps.h. What a rank keeps has a first dim of 1, of which all ranks have one each, so that
// checkpoints know it as they know residuals.
#include "trireme/passes/local_steps.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/exchange/gossip.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

constexpr std::string_view kAxis = "data", kScale = "scale", kCount = "count";
const std::string kMixed = fmt::format("{}mixed", kKeptPrefix);  // the state that goes to neighbours
// So that shares are equal where nobody has counted anything; less than half a unit of any count.
constexpr double kAlmostNothing = 1e-30;

class Maker {
 public:
  Maker(const Graph& graph, const Consistency& how, const Mesh& mesh, int rank, const OpTable& ops)
      : graph_(graph), how_(how), mesh_(mesh), axis_(mesh.find(kAxis)), ops_(ops) {
    ranks_ = mesh.axes()[axis_].size;
    rank_ = mesh.coordinate(rank, axis_);
    for (const Value& value : graph.values) {
      if (value.kind != Value::Kind::kState || !is_lasting(value.role)) continue;
      lasting_.push_back(value);
      if (value.role != Role::kOptimizer) agreed_.push_back(value);
      if (value.role == Role::kParameter) parameters_.push_back(value);
    }
  }

  LocalSteps run() {
    result_.update = update();
    using enum Consistency::Kind;
    switch (how_.kind) {
      case kLocal:
      case kFedavg:
        add_average();
        break;
      case kDiloco:
        add_outer_step();
        break;
      case kDelayed:
        add_delayed();
        break;
      case kGossip:
        add_gossip();
        break;
      case kPushSum:
        add_pushes();
        break;
    }
    add_meeting();
    for (const Graph& graph : result_.segments) debug_verify(graph);
    return std::move(result_);
  }

 private:
  enum class Of { kRank, kAll };

  bool sums_over_ranks(const Node& node) const {
    return node.op->collective && node.attrs.text("axis", "") == kAxis;
  }

  // The update without sums over the ranks: what each rank has made is all there is.
  Graph update() {
    Builder b(ops_, graph_.name);
    std::vector<ValueId> locals(graph_.values.size(), kNoValue);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].kind != Value::Kind::kResult) locals[v] = b.declare(graph_.values[v]);
    }
    for (const Node& node : graph_.nodes) {
      if (sums_over_ranks(node)) {
        TRIREME_CHECK(node.op->collective->kind == CollectiveKind::kAllReduce);
        locals[node.outputs[0]] = locals[node.inputs[0]];
        continue;
      }
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(locals[input]);
      const std::vector<ValueId> outputs = b.copy(graph_, node, inputs, node.attrs);
      for (size_t i = 0; i < outputs.size(); ++i) locals[node.outputs[i]] = outputs[i];
    }
    std::map<std::string, ValueId, std::less<>> shares;
    for (const Update& update : graph_.updates) {
      const Value& state = graph_.values[update.state];
      if (how_.kind == Consistency::Kind::kDelayed && state.role == Role::kParameter) {
        add_change(b, state, locals[update.state], locals[update.value]);
        if (!corrects()) continue;
      }
      if (mixes() && state.role == Role::kParameter) {
        shares[state.name] = add_share(b, locals[update.state], locals[update.value]);
        continue;
      }
      b.update(locals[update.state], locals[update.value]);
    }
    if (mixes()) send_shares(b, shares);
    for (const Output& output : graph_.outputs) b.output(output.name, locals[output.value], output.role);
    if (how_.kind == Consistency::Kind::kFedavg) count_samples(b, locals);
    debug_verify(b.graph());
    return b.take();
  }

  // Whether a rank makes its own steps at once, which the mean of all ranks' then takes the place of.
  bool corrects() const { return how_.settings.whole("correction") != 0; }

  // Whether weights are mixed with those of some others in every step.
  bool mixes() const {
    return how_.kind == Consistency::Kind::kGossip || how_.kind == Consistency::Kind::kPushSum;
  }

  // Adds what the step changes to what the steps before have.
  void add_change(Builder& b, const Value& parameter, ValueId before, ValueId after) {
    const Builder::Scope scope(b, "exchange");
    const ValueId change = keep(b, "change", parameter);
    b.update(change, b.op("add", {change, in_row(b, b.op("sub", {after, before}))}));
  }

  void count_samples(Builder& b, const std::vector<ValueId>& locals) {
    const auto output = [&](std::string_view name) {
      const auto found = std::ranges::find(graph_.outputs, name, &Output::name);
      TRIREME_CHECK(found != graph_.outputs.end());
      return locals[found->value];
    };
    const Builder::Scope scope(b, "exchange");
    const ValueId samples = keep_samples(b);
    const ValueId sum = b.op("add", {samples, in_row(b, output(kCount))});
    b.update(samples, b.op("renew", {samples, sum, output(kScale)}));
  }

  // A state [1, …] for another one.
  ValueId keep(Builder& b, std::string_view what, const Value& of, Of whose = Of::kRank) {
    return keep_named(b, fmt::format("{}{}.{}", kKeptPrefix, what, of.name), of.type.shape, whose);
  }
  ValueId keep_samples(Builder& b) {
    return keep_named(b, fmt::format("{}samples", kKeptPrefix), Shape{}, Of::kRank);
  }
  // How many rounds there have been.
  ValueId keep_round(Builder& b) {
    return keep_named(b, fmt::format("{}round", kKeptPrefix), Shape{}, Of::kAll);
  }
  // Of a rank's weights, how much of one rank's that is.
  ValueId keep_weight(Builder& b) {
    return keep_named(b, fmt::format("{}weight", kKeptPrefix), Shape{}, Of::kRank, "ones");
  }
  ValueId keep_named(Builder& b, const std::string& name, const Shape& shape, Of whose,
                     const char* start = "zeros") {
    if (const ValueId known = b.graph().find(name); known != kNoValue) return known;
    Shape one{1};
    for (const int64_t extent : shape) one.push_back(extent);
    KeptState state{one, replicated(mesh_)};
    if (whose == Of::kRank) {
      state.layout[axis_] = Placement::split(0);
      state.whole.set(0, ranks_);
    }
    result_.kept[name] = state;
    return b.state(name, {DType::f32, one}, Role::kResidual, {{"init", start}});
  }

  static ValueId reshaped(Builder& b, ValueId value, const std::vector<int64_t>& shape) {
    return b.op("reshape", {value}, {{"shape", shape}});
  }
  // […] as [1, …], and back.
  static ValueId in_row(Builder& b, ValueId value) {
    std::vector<int64_t> shape = {1};
    for (const int64_t extent : b.shape(value)) shape.push_back(extent);
    return reshaped(b, value, shape);
  }
  static ValueId out_of_row(Builder& b, ValueId value) {
    const Shape& shape = b.shape(value);
    return reshaped(b, value, {shape.begin() + 1, shape.end()});
  }

  ValueId summed(Builder& b, ValueId value) {
    return b.op(
        "all_reduce", {value},
        {{"axis", std::string(kAxis)}, {"ways", ranks_}, {"coordinate", rank_}, {"reduction", "sum"}});
  }

  // The part of the mean that this rank is, by the targets it has counted, or by the weight of what it has;
  // none where all are alike.
  ValueId own_share(Builder& b) {
    if (how_.kind == Consistency::Kind::kPushSum)
      return b.op("affine", {out_of_row(b, keep_weight(b))}, {{"scale", 1.0 / static_cast<double>(ranks_)}});
    if (how_.kind != Consistency::Kind::kFedavg) return kNoValue;
    ValueId own =
        b.op("affine", {out_of_row(b, keep_samples(b))}, {{"scale", 1.0}, {"shift", kAlmostNothing}});
    if (how_.taking_part(ranks_) < ranks_) own = b.op("mul", {own, takes_part(b)});
    return b.op("div", {own, summed(b, own)});
  }
  // 1 where this rank is among those that are drawn for this round, 0 where what it has done does not count.
  ValueId takes_part(Builder& b) {
    return b.op("drawn", {out_of_row(b, keep_round(b))},
                {{"count", how_.taking_part(ranks_)},
                 {"of", ranks_},
                 {"which", rank_},
                 {"seed", how_.settings.whole("seed")},
                 {"stream", static_cast<int64_t>(stream_id("exchange.clients") >> 2)}});
  }
  ValueId mean(Builder& b, ValueId value, ValueId share) {
    if (share != kNoValue) return summed(b, b.op("mul", {value, share}));
    return b.op("affine", {summed(b, value)}, {{"scale", 1.0 / static_cast<double>(ranks_)}});
  }

  template <typename Body>
  void add_segment(const std::string& name, const Body& body) {
    Builder b(ops_, name);
    body(b);
    result_.segments.push_back(b.take());
  }

  static std::vector<Action> runs(const std::vector<std::string>& segments) {
    std::vector<Action> actions;
    for (const std::string& segment : segments) actions.push_back(Action::run(segment));
    return actions;
  }

  void add_average() {
    add_segment("exchange", [&](Builder& b) {
      const ValueId share = own_share(b);
      for (const Value& state : agreed_) {
        const ValueId own = b.declare(state);
        b.update(own, mean(b, own, share));
      }
      if (share == kNoValue) return;
      const ValueId samples = b.graph().find(fmt::format("{}samples", kKeptPrefix));
      b.update(samples, b.op("affine", {samples}, {{"scale", 0.0}}));
      if (how_.taking_part(ranks_) == ranks_) return;
      const ValueId round = keep_round(b);
      b.update(round, b.op("affine", {round}, {{"scale", 1.0}, {"shift", 1.0}}));
    });
    result_.lists.push_back({"exchange", runs({"exchange"}), how_.period(), how_.period()});
  }

  // Nesterov's momentum on the way from where all were last to the mean, as if that were a gradient.
  void add_outer_step() {
    const double rate = how_.settings.real("outer_rate"), momentum = how_.settings.real("outer_momentum");
    add_segment("exchange", [&](Builder& b) {
      for (const Value& state : agreed_) {
        const ValueId own = b.declare(state);
        const ValueId met = mean(b, own, kNoValue);
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
    result_.lists.push_back({"exchange", runs({"exchange"}), how_.period(), how_.period()});
    add_beginning();
  }

  // All start from the same weights.
  void add_beginning() {
    add_segment("begin", [&](Builder& b) {
      for (const Value& state : agreed_) {
        if (state.role != Role::kParameter) continue;
        const ValueId own = b.declare(state);
        b.update(keep(b, "anchor", state, Of::kAll), in_row(b, own));
      }
    });
    result_.lists.push_back({"begin", runs({"begin"})});
  }

  // What is under way is kept in as many places as there are periods in the delay. It is added up when it is
  // due: ranks may be apart by as much as the delay, but what they add up does not travel before.
  void add_delayed() {
    const int64_t delay = how_.settings.whole("delay"), period = how_.period();
    const int64_t places = std::max<int64_t>(1, (delay + period - 1) / period);
    for (int64_t place = 0; place < places; ++place) {
      add_segment(fmt::format("pack{}", place), [&](Builder& b) {
        for (const Value& state : agreed_) {
          if (state.role != Role::kParameter) continue;
          const ValueId change = keep(b, "change", state);
          b.update(keep(b, fmt::format("sent{}", place), state), change);
        }
      });
      add_segment(fmt::format("arrive{}", place), [&](Builder& b) {
        for (const Value& state : agreed_) {
          const ValueId own = b.declare(state);
          if (state.role != Role::kParameter) {
            b.update(own, mean(b, own, kNoValue));
            continue;
          }
          add_arrival(b, state, own, place, places);
        }
      });
    }
    // Behind what takes it: a state does not become what another one was while that changes.
    add_segment("clear", [&](Builder& b) {
      for (const Value& state : agreed_) {
        if (state.role != Role::kParameter) continue;
        const ValueId change = keep(b, "change", state);
        b.update(change, b.op("affine", {change}, {{"scale", 0.0}}));
      }
    });
    if (corrects()) add_beginning();
    if (delay == 0) {
      result_.lists.push_back({"exchange", runs({"pack0", "clear", "arrive0"}), period, period});
      return;
    }
    // What arrives makes room for what is sent in the same step.
    for (int64_t place = 0; place < places; ++place)
      result_.lists.push_back({fmt::format("arrive{}", place), runs({fmt::format("arrive{}", place)}),
                               period * places, period * (place + 1) + delay});
    for (int64_t place = 0; place < places; ++place)
      result_.lists.push_back({fmt::format("pack{}", place), runs({fmt::format("pack{}", place), "clear"}),
                               period * places, period * (place + 1)});
  }

  // With correction, a rank's weights are what all agree on and then what it alone has changed since: not its
  // own corrected by what differs, or replicas would come apart by rounding, more and more.
  void add_arrival(Builder& b, const Value& state, ValueId own, int64_t place, int64_t places) {
    const auto sent_at = [&](int64_t at) { return keep(b, fmt::format("sent{}", at), state); };
    const ValueId sent = sent_at(place), arrived = mean(b, sent, kNoValue);
    if (!corrects()) {
      b.update(own, b.op("add", {own, out_of_row(b, arrived)}));
      return;
    }
    const ValueId anchor = keep(b, "anchor", state, Of::kAll);
    const ValueId agreed = b.op("add", {anchor, arrived});
    ValueId since = keep(b, "change", state);
    for (int64_t other = 0; other < places; ++other) {
      if (other != place) since = b.op("add", {since, sent_at(other)});
    }
    b.update(anchor, agreed);
    b.update(own, out_of_row(b, b.op("add", {agreed, since})));
    b.update(sent, b.op("affine", {sent}, {{"scale", 0.0}}));
  }

  GossipGraph gossip() const { return gossip_graph(how_.settings.word("graph")); }
  std::vector<int> around() const {
    return neighbours(gossip(), static_cast<int>(ranks_), static_cast<int>(rank_));
  }

  // All that goes to a rank goes together: a message for each tensor would wait for the link each time. What
  // goes to others lies in slot 0, what comes from them in the slots behind it.
  ValueId message(Builder& b) {
    int64_t elements = how_.kind == Consistency::Kind::kPushSum ? 1 : 0;
    for (const Value& parameter : parameters_) elements += parameter.type.shape.elements();
    const bool pushes = how_.kind == Consistency::Kind::kPushSum;
    result_.slots[kMixed] = 1 + static_cast<int>(pushes ? 1 : around().size());
    return b.state(kMixed, {DType::f32, {elements}}, Role::kMessage);
  }

  // What goes to each of the others is also what stays: shares are equal. The step is made on what stays,
  // from the weights that its gradient is of. Returns what is sent.
  ValueId add_share(Builder& b, ValueId before, ValueId after) {
    const Builder::Scope scope(b, "exchange");
    const ValueId step = b.op("sub", {after, before});
    if (how_.kind == Consistency::Kind::kGossip) {
      const double share = 1.0 / static_cast<double>(1 + around().size());
      const ValueId part = b.op("affine", {before}, {{"scale", share}});
      b.update(before, b.op("add", {part, step}));
      return part;
    }
    const ValueId whole = b.op("add", {b.op("mul", {before, out_of_row(b, keep_weight(b))}), step});
    const ValueId half = b.op("affine", {whole}, {{"scale", 0.5}});
    b.update(before, half);
    return half;
  }
  ValueId share_weight(Builder& b) {
    const ValueId weight = keep_weight(b), half = b.op("affine", {weight}, {{"scale", 0.5}});
    b.update(weight, half);
    return half;
  }
  // By the names of parameters, whose order is that of the message.
  void send_shares(Builder& b, const std::map<std::string, ValueId, std::less<>>& shares) {
    const Builder::Scope scope(b, "exchange");
    std::vector<ValueId> parts;
    for (const Value& parameter : parameters_)
      parts.push_back(reshaped(b, shares.at(parameter.name), {parameter.type.shape.elements()}));
    if (how_.kind == Consistency::Kind::kPushSum) parts.push_back(share_weight(b));
    b.update(message(b), b.op("concat", parts, {{"dim", 0}}));
  }

  // Calls body(parameter, what came of it) for each; returns what came behind them.
  template <typename Body>
  ValueId each_arrived(Builder& b, const Body& body) {
    const ValueId all = message(b);
    int64_t start = 0;
    const auto next = [&](int64_t size) {
      start += size;
      return b.op("slice", {all}, {{"dim", 0}, {"start", start - size}, {"size", size}});
    };
    for (const Value& parameter : parameters_) {
      const Shape& shape = parameter.type.shape;
      body(parameter, reshaped(b, next(shape.elements()), {shape.begin(), shape.end()}));
    }
    return start < b.shape(all).elements() ? next(1) : kNoValue;
  }

  void add_gossip() {
    add_segment("mix", [&](Builder& b) {
      each_arrived(b, [&](const Value& parameter, ValueId arrived) {
        const ValueId own = b.declare(parameter);
        b.update(own, b.op("add", {own, arrived}));
      });
    });
    LocalSteps::List list{"exchange", {}, 1, 1};
    const std::vector<int> peers = around();
    for (size_t i = 0; i < peers.size(); ++i) {
      list.actions.push_back(Action::send(kMixed, peers[i]));
      list.actions.push_back(Action::receive(kMixed, peers[i], static_cast<int>(i) + 1));
    }
    for (size_t i = 0; i < peers.size(); ++i)
      list.actions.push_back(Action::run("mix", 0, static_cast<int>(i) + 1));
    result_.lists.push_back(std::move(list));
  }

  // To another one in each step, in turn, so that after so many steps all have heard of all.
  void add_pushes() {
    add_segment("mix", [&](Builder& b) {
      std::vector<std::pair<ValueId, ValueId>> sums;  // of weights
      const ValueId weight = keep_weight(b);
      const ValueId arrived_weight = each_arrived(b, [&](const Value& parameter, ValueId arrived) {
        const ValueId own = b.declare(parameter);
        sums.emplace_back(own, b.op("add", {own, arrived}));
      });
      const ValueId sum = b.op("add", {weight, arrived_weight}), divisor = out_of_row(b, sum);
      b.update(weight, sum);
      for (const auto& [own, all] : sums) b.update(own, b.op("div", {all, divisor}));
    });
    const std::vector<int> distances = push_distances(gossip(), static_cast<int>(ranks_));
    for (size_t i = 0; i < distances.size(); ++i) {
      LocalSteps::List list{fmt::format("push{}", i), {}, std::ssize(distances), static_cast<int64_t>(i) + 1};
      list.actions.push_back(Action::send(kMixed, static_cast<int>((rank_ + distances[i]) % ranks_)));
      list.actions.push_back(
          Action::receive(kMixed, static_cast<int>((rank_ + ranks_ - distances[i]) % ranks_), 1));
      list.actions.push_back(Action::run("mix", 0, 1));
      result_.lists.push_back(std::move(list));
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
      const ValueId share = own_share(b);
      for (const Value& state : lasting_) {
        const ValueId value = b.declare(state);
        b.update(value, mean(b, value, state.role == Role::kOptimizer ? kNoValue : share));
      }
    });
    add_segment("part", [&](Builder& b) {
      for (const Value& state : lasting_) {
        const ValueId value = b.declare(state);
        b.update(value, out_of_row(b, keep(b, "own", state)));
      }
    });
    result_.lists.push_back({"meet", runs({"keep", "meet"})});
    result_.lists.push_back({"part", runs({"part"})});
  }

  const Graph& graph_;
  const Consistency& how_;
  const Mesh& mesh_;
  int axis_;
  const OpTable& ops_;
  int64_t ranks_ = 1, rank_ = 0;
  std::vector<Value> lasting_, agreed_;  // states; those that ranks agree on: weights and running statistics
  std::vector<Value> parameters_;
  LocalSteps result_;
};

}  // namespace

LocalSteps local_steps(const Graph& update, const Consistency& how, const Mesh& mesh, int rank,
                       const OpTable& ops) {
  return Maker(update, how, mesh, rank, ops).run();
}

}  // namespace trireme

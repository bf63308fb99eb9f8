// See served.h. All of a rank's gradients go in one message, and so do weights.
#include "trireme/exchange/served.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/packed.h"
#include "trireme/ir/builder.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

std::string weights_state(int server) {
  return fmt::format("exchange.weights{}", server);
}
std::string segment_of(std::string_view kind, int server) {
  return server == 0 ? std::string(kind) : fmt::format("{}{}", kind, server);
}
constexpr std::string_view kGiveSegment = "give";
constexpr TensorType kAskedType{DType::f32, {}};

// The two ends of a message have lists of one name; `rank` is the worker's.
std::string push_list(int rank) {
  return fmt::format("push{}", rank);
}
std::string pull_list(int rank) {
  return fmt::format("pull{}", rank);
}

// What an update has of a parameter: its gradient; of a buffer, what a worker has made of it in the step.
struct Learned {
  Value state, pushed;
};

// Between a server and its workers.
class Messages {
 public:
  Messages(const Graph& update, int server, const OpTable& ops) : ops_(ops), server_(server) {
    for (const Value& value : update.values) {
      if (value.role != Role::kParameter && value.role != Role::kBuffer) continue;
      const Role pushed_as = value.role == Role::kParameter ? Role::kGradient : Role::kPending;
      const auto pushed = std::ranges::find_if(update.values, [&](const Value& other) {
        return other.role == pushed_as && other.attrs.text("of", "") == value.name;
      });
      TRIREME_CHECK(pushed != update.values.end());
      learned_.push_back({value, *pushed});
      elements_ += value.type.shape.elements();
    }
    for (const char* name : {"loss", "count"}) {
      const auto output = std::ranges::find(update.outputs, name, &Output::name);
      TRIREME_CHECK(output != update.outputs.end());
      sums_.push_back(update.values[output->value]);
      TRIREME_CHECK(sums_.back().kind == Value::Kind::kState);
    }
  }

  // Gradients, running statistics times the count, and behind them loss, count and whether this worker is
  // asked to stop. Where a number of `all` is not finite, the count is not either, so that all servers skip
  // the step.
  Graph push(std::span<const Graph> all) const {
    Builder b(ops_, segment_of("push", server_));
    std::vector<ValueId> parts;
    const ValueId count = b.declare(sums_.back());
    for (const Value& state : pushed()) {
      const ValueId own = state.name == sums_.back().name ? count : b.declare(state);
      parts.push_back(state.role == Role::kPending ? b.op("mul", {own, count}) : own);
    }
    if (all.size() > 1) parts.back() = b.op("add", {flat(b, parts.back()), nothing_of(b, all)});
    parts.push_back(b.input(std::string(kAsked), kAskedType, Role::kScalar));
    b.update(push_message(b), packed(b, parts));
    return finished(b);
  }
  enum class With { kReplace, kAdd };
  Graph take(std::string name, With with) const {
    Builder b(ops_, std::move(name));
    Unpacked all(b, push_message(b));
    for (const Value& state : pushed()) {
      const ValueId own = b.declare(state), came = all.next(state.type.shape);
      b.update(own, with == With::kAdd ? b.op("add", {own, came}) : came);
    }
    return finished(b);
  }
  // Weights, and behind them whether that is all.
  Graph give() const {
    Builder b(ops_, std::string(kGiveSegment));
    const ValueId over = b.input(std::string(kOver), kAskedType, Role::kScalar);
    std::vector<ValueId> parts;
    for (const Learned& one : learned_) parts.push_back(b.declare(one.state));
    parts.push_back(over);
    b.update(weights_message(b), packed(b, parts));
    return finished(b);
  }
  Graph pull() const {
    Builder b(ops_, segment_of("pull", server_));
    Unpacked all(b, weights_message(b));
    for (const Learned& one : learned_) {
      const ValueId own = b.declare(one.state);
      b.update(own, all.next(one.state.type.shape));
    }
    b.output(std::string(kOver), all.next({}));
    return finished(b);
  }

 private:
  std::vector<Value> pushed() const {
    std::vector<Value> states;
    for (const Learned& one : learned_) states.push_back(one.pushed);
    states.insert(states.end(), sums_.begin(), sums_.end());
    return states;
  }
  ValueId push_message(Builder& b) const {
    return b.state(push_state(server_), {DType::f32, {elements_ + std::ssize(sums_) + 1}}, Role::kMessage);
  }
  ValueId weights_message(Builder& b) const {
    return b.state(weights_state(server_), {DType::f32, {elements_ + 1}}, Role::kMessage);
  }
  // [1]: 0 times the squares of all gradients.
  ValueId nothing_of(Builder& b, std::span<const Graph> all) const {
    ValueId squares = kNoValue;
    for (size_t server = 0; server < all.size(); ++server) {
      for (const Learned& one : Messages(all[server], static_cast<int>(server), ops_).learned_) {
        if (one.pushed.role != Role::kGradient) continue;
        const ValueId known = b.graph().find(one.pushed.name);
        const ValueId part = b.op("sum_squares", {known != kNoValue ? known : b.declare(one.pushed)});
        squares = squares == kNoValue ? part : b.op("add", {squares, part});
      }
    }
    return flat(b, b.op("affine", {squares}, {{"scale", 0.0}}));
  }
  static Graph finished(Builder& b) {
    debug_verify(b.graph());
    return b.take();
  }

  const OpTable& ops_;
  const int server_;
  std::vector<Learned> learned_;
  std::vector<Value> sums_;  // the states of loss and count
  int64_t elements_ = 0;
};

// The first server, which evaluates, gets the weights of all others.
std::vector<Action> meeting(std::span<const Graph> updates, int number) {
  std::vector<Action> actions;
  for (size_t server = 1; server < updates.size(); ++server) {
    for (const Value& value : updates[server].values) {
      if (value.role != Role::kParameter) continue;
      if (number == kLeadingServer)
        actions.push_back(Action::receive(value.name, static_cast<int>(server)));
      else if (number == static_cast<int>(server))
        actions.push_back(Action::send(value.name, kLeadingServer));
    }
  }
  return actions;
}

}  // namespace

std::string push_state(int server) {
  return fmt::format("exchange.push{}", server);
}
// A worker may be so many steps ahead of the update that its next gradients are for.
int server_slots(const Servers& servers) {
  return servers.workers *
         (servers.updates == Servers::Updates::kClocks ? static_cast<int>(servers.staleness) + 1 : 1);
}
int push_slot(const Servers& servers, int worker, int64_t step) {
  const int rounds = server_slots(servers) / servers.workers;
  return static_cast<int>(step % rounds) * servers.workers + worker;
}

namespace {

AgreedSteps worker_steps(std::span<const Graph> updates, int rank, const OpTable& ops) {
  AgreedSteps result;
  ActionList push{push_list(rank), {}, When::every(1)}, pull{pull_list(rank), {}, When::every(1)};
  for (size_t number = 0; number < updates.size(); ++number) {
    const int server = static_cast<int>(number);
    const Messages messages(updates[number], server, ops);
    result.segments.emplace_back(messages.push(updates), SegmentKind::kUpdate);
    push.actions.push_back(Action::run(result.segments.back().graph.name));
    push.actions.push_back(Action::send(push_state(server), server));
    pull.actions.push_back(Action::receive(weights_state(server), server));
  }
  for (size_t number = 0; number < updates.size(); ++number) {
    const Messages messages(updates[number], static_cast<int>(number), ops);
    result.segments.emplace_back(messages.pull(), SegmentKind::kUpdate);
    pull.actions.push_back(Action::run(result.segments.back().graph.name));
  }
  result.lists = {std::move(push), std::move(pull)};
  return result;
}

AgreedSteps server_steps(std::span<const Graph> updates, int number, const Servers& servers,
                         const OpTable& ops) {
  const Messages messages(updates[static_cast<size_t>(number)], number, ops);
  AgreedSteps result;
  result.segments.emplace_back(messages.take("take_first", Messages::With::kReplace));
  result.segments.emplace_back(messages.take("take_next", Messages::With::kAdd));
  result.segments.emplace_back(messages.give(), SegmentKind::kUpdate);
  // In the order of ranks: who comes first does not decide how sums are rounded.
  const int addends = servers.updates == Servers::Updates::kClocks ? servers.workers : 1;
  std::vector<Action>& step = result.step.emplace();
  for (int worker = 0; worker < addends; ++worker)
    step.push_back(Action::run(worker == 0 ? "take_first" : "take_next", 0, worker));
  step.push_back(Action::run(updates[static_cast<size_t>(number)].name));
  step.push_back(Action::run(std::string(kGiveSegment)));
  for (int worker = 0; worker < servers.workers; ++worker) {
    const int rank = servers.rank_of(worker);
    result.lists.push_back(
        {push_list(rank), {Action::receive(push_state(number), rank, worker)}, When::arrival(rank)});
    result.lists.push_back({pull_list(rank), {Action::send(weights_state(number), rank)}, When::tell(rank)});
  }
  result.lists.push_back(
      {std::string(kGiveSegment), {Action::run(std::string(kGiveSegment))}, When::asked(When::What::kGive)});
  if (servers.count > 1)
    result.lists.push_back({"meet", meeting(updates, number), When::asked(When::What::kMeet)});
  result.slots[push_state(number)] = server_slots(servers);
  return result;
}

// `updates` are those segments of a step on whole tensors, with f32 weights and gradients.
AgreedSteps served_steps(const AgreeingRank& rank) {
  const Servers& servers = *rank.agreement.servers();
  TRIREME_CHECK(std::ssize(rank.updates) == servers.count);
  return servers.serves(rank.rank) ? server_steps(rank.updates, rank.rank, servers, rank.ops)
                                   : worker_steps(rank.updates, rank.rank, rank.ops);
}

}  // namespace

AgreementRecord served_record() {
  return {Agreement::Kind::kServed, AgreementRecord::States::kServed, served_steps, served_policy};
}

}  // namespace trireme

// See experts.h. Shapes are static: each expert has as many slots in a group as the capacity says, and those
// without a token are rows of zeros, which products leave out.
#include "trireme/models/experts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ir/trained.h"

namespace trireme {
namespace {

constexpr int64_t kAnyK = std::numeric_limits<int64_t>::max();
constexpr double kDropless = 0;
// The standard deviation of a router's first logits, whatever the width: its rows are normalised, so they are
// √M long. Where logits begin much closer together, nearly all tokens choose the same experts in the first
// steps, and models learn less (docs/experts.md, Learning).
constexpr double kFirstLogits = 2;

// clang-format off
constexpr Gate kGates[] = {
    {.name = "gshard",      .scores = "softmax", .top_k = 2, .most_k = 2,     .normalise = true,  .scale = 1,
     .capacity = 2,         .balance = 0.01,     .places = Gate::Places::kMultiples, .balanced_choices = 1,
     .draws_second = true,  .corrects = false},
    {.name = "switch",      .scores = "softmax", .top_k = 1, .most_k = 1,     .normalise = false, .scale = 1,
     .capacity = 1.25,      .balance = 0.01,     .places = Gate::Places::kOfTokens,  .balanced_choices = 1,
     .draws_second = false, .corrects = false},
    {.name = "mixtral",     .scores = "softmax", .top_k = 2, .most_k = kAnyK, .normalise = true,  .scale = 1,
     .capacity = kDropless, .balance = 0.02,     .places = Gate::Places::kOfChoices, .balanced_choices = 0,
     .draws_second = false, .corrects = false},
    {.name = "deepseek_v3", .scores = "sigmoid", .top_k = 8, .most_k = kAnyK, .normalise = true,  .scale = 2.5,
     .capacity = kDropless, .balance = 1e-4,     .places = Gate::Places::kOfChoices, .balanced_choices = 0,
     .draws_second = false, .corrects = true},
};
// clang-format on

// Experts that choose tokens see the later ones of a sequence before they choose.
constexpr std::string_view kExpertChoice = "expert_choice";

const Gate* gate_or_null(std::string_view name) {
  const auto found = std::ranges::find(kGates, name, &Gate::name);
  return found == std::end(kGates) ? nullptr : &*found;
}

int64_t experts_hidden(const MoeOptions& moe, int64_t feed_forward) {
  return moe.hidden > 0 ? moe.hidden : feed_forward;
}

// The token's experts, and how the loss keeps them evenly used.
struct Routed {
  ValueId weights, at;
  int64_t capacity;
  double rows;  // that an expert has in a group if all have as many, and its slots are enough
};

Routed route(Network& net, const MoeOptions& moe, const Gate& gate, ValueId x, const std::string& name,
             const ExpertStyle& style) {
  const Builder::Scope part = net.scope(name + "." + std::string(style.router));
  const int64_t features = net.shape(x).back();
  const bool in_out = style.store == Network::Store::kInOut, training = net.mode() == Mode::kTrain;
  const std::string router = fmt::format("{}.{}", name, style.router);
  const ValueId weight =
      net.parameter(router + ".weight", in_out ? Shape{features, moe.experts} : Shape{moe.experts, features},
                    Init::normal(kFirstLogits / std::sqrt(static_cast<double>(features))));
  const ValueId z = net.op("matmul_f32", {x, weight}, {{"transpose_b", int64_t{!in_out}}});
  std::vector<ValueId> scored = {z};
  if (gate.corrects)
    scored.push_back(
        net.buffer(fmt::format("{}.{}", name, style.bias), {moe.experts}, Init::zeros(),
                   {{std::string(kBalances), name}, {std::string(kBalanceRate), moe.bias_rate}}));
  const std::vector<ValueId> chosen = net.node("route", scored,
                                               {{"k", moe.top_k},
                                                {"scores", std::string(gate.scores)},
                                                {"normalise", int64_t{gate.normalise}},
                                                {"scale", moe.scale},
                                                {"expert_groups", moe.expert_groups},
                                                {"top_groups", moe.top_groups}});
  const bool drops = training || net.mode() == Mode::kEvaluate;
  const int64_t tokens = net.shape(x)[1], capacity = drops ? expert_capacity(moe, tokens) : tokens;
  Attrs places{{"experts", moe.experts}, {"capacity", capacity}};
  std::vector<ValueId> asking = {chosen[1]};
  if (gate.draws_second && training) {
    asking.insert(asking.end(), {chosen[0], net.rng()});
    places.set("stream", net.next_stream());
  }
  const std::vector<ValueId> slots = net.node("slots", asking, places);
  if (training) {
    const std::vector<ValueId> balance =
        net.node("balance", {z, slots[1]},
                 {{"alpha", moe.balance},
                  {"z", moe.z_loss},
                  {"scores", std::string(gate.scores)},
                  {"choices", gate.balanced_choices > 0 ? gate.balanced_choices : moe.top_k}});
    net.tally(name, OutputRole::kObjective, balance[0]);
    net.tally(name, OutputRole::kLoad, slots[2]);
    net.tally(name, OutputRole::kDropped, slots[3]);
    net.tally(name, OutputRole::kImportance, balance[1]);
  }
  const double even = static_cast<double>(tokens * moe.top_k) / static_cast<double>(moe.experts);
  return {chosen[0], slots[0], capacity, std::min(even, static_cast<double>(capacity))};
}

// The rows in the slots of experts, and how many of an expert's slots in a group have a token.
struct Rows {
  ValueId x, used;
  double even;
};

// One weight of all experts: [E, in, out], or [E, out, in].
ValueId product(Network& net, const Rows& rows, const std::string& name, const MoeOptions& moe,
                int64_t outputs, const ExpertStyle& style, TensorSplit::Side side, double deviation) {
  const Builder::Scope layer = net.scope(name);
  const bool in_out = style.store == Network::Store::kInOut;
  const int64_t inputs = net.shape(rows.x).back();
  const int64_t split_dim = in_out == (side == TensorSplit::Side::kOutputs) ? 2 : 1;
  const ValueId weight = net.parameter(
      name + ".weight", in_out ? Shape{moe.experts, inputs, outputs} : Shape{moe.experts, outputs, inputs},
      Init::normal(deviation),
      {{"tensor_dim", split_dim},
       {std::string(kExpertDim), int64_t{0}},
       {std::string(kActiveExperts), moe.top_k}});
  return net.op("matmul_slots", {rows.x, weight, rows.used},
                {{"transpose_b", int64_t{!in_out}}, {"rows", rows.even}});
}

}  // namespace

const Gate& find_gate(std::string_view name) {
  if (const Gate* gate = gate_or_null(name)) return *gate;
  throw_error("there is no gate '{}'; {}", name, suggestion(std::string(name), gate_names()));
}

std::vector<std::string> gate_names() {
  std::vector<std::string> names;
  for (const Gate& gate : kGates) names.emplace_back(gate.name);
  names.emplace_back(kExpertChoice);
  return names;
}

bool has_experts(const ModelOptions& options, int64_t layer) {
  return options.moe.experts > 0 && (layer + 1) % options.moe.every == 0;
}

MoeOptions sizes_of(const MoeOptions& moe, int64_t feed_forward) {
  const Gate& gate = find_gate(moe.gate);
  MoeOptions sized = moe;
  if (sized.top_k == 0) sized.top_k = std::min(gate.top_k, moe.experts);
  if (sized.capacity < 0) sized.capacity = gate.capacity;
  if (sized.balance < 0) sized.balance = gate.balance;
  if (sized.scale == 0) sized.scale = gate.scale;
  sized.hidden = experts_hidden(moe, feed_forward);
  return sized;
}

int64_t expert_capacity(const MoeOptions& moe, int64_t tokens) {
  if (moe.capacity == kDropless) return tokens;  // an expert is one choice of a token at most
  const double even = moe.capacity * static_cast<double>(tokens) / static_cast<double>(moe.experts);
  // What is a whole number but for rounding counts as one.
  const auto down = [](double value) { return static_cast<int64_t>(std::floor(value * (1 + 1e-12))); };
  const auto up = [](double value) { return static_cast<int64_t>(std::ceil(value * (1 - 1e-12))); };
  int64_t slots = 0;
  switch (find_gate(moe.gate).places) {
    case Gate::Places::kOfTokens:
      slots = down(even);
      break;
    case Gate::Places::kOfChoices:
      slots = up(even * static_cast<double>(moe.top_k));
      break;
    case Gate::Places::kMultiples:
      slots = (std::max<int64_t>(4, down(even)) + 3) / 4 * 4;
      break;
  }
  return std::clamp<int64_t>(slots, 1, tokens);
}

std::vector<std::string> expert_problems(const ModelOptions& options) {
  const MoeOptions& moe = options.moe;
  if (moe.experts == 0) return {};
  std::vector<std::string> found;
  const auto add = [&]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    found.push_back(fmt::format(format, std::forward<Args>(args)...));
  };
  if (moe.gate == kExpertChoice) {
    add("model.moe.gate = expert_choice lets experts choose tokens, later ones of a sequence too, so that "
        "model.family = {} would see what it is to predict; try {}",
        options.family, kGates[0].name);
    return found;
  }
  const Gate* gate = gate_or_null(moe.gate);
  if (!gate) return {};  // the setting's own limits say so
  const int64_t k = moe.top_k > 0 ? moe.top_k : std::min(gate->top_k, moe.experts);
  if (k > moe.experts)
    add("model.moe.top_k = {} experts are chosen of model.moe.experts = {}; try top_k {}", k, moe.experts,
        moe.experts);
  if (k > gate->most_k)
    add("model.moe.top_k = {}, but the gate {} chooses {}; leave top_k out, or use the gate mixtral", k,
        moe.gate, gate->most_k);
  if (k < gate->top_k && gate->most_k != kAnyK && moe.experts >= gate->top_k)
    add("model.moe.top_k = {}, but the gate {} chooses {}; leave top_k out, or use the gate switch", k,
        moe.gate, gate->top_k);
  if (options.seq % moe.groups != 0)
    add("model.seq = {} cannot be split evenly into model.moe.groups = {} routing groups; try groups {}",
        options.seq, moe.groups, divisors_near(options.seq, moe.groups));
  if (options.layers / moe.every == 0)
    add("model.moe.every = {} is more than model.layers = {}, so that no layer has experts; try every {}",
        moe.every, options.layers, options.layers);
  if (moe.experts % moe.expert_groups != 0)
    add("model.moe.experts = {} cannot be split evenly into model.moe.expert_groups = {}; try expert_groups "
        "{}",
        moe.experts, moe.expert_groups, divisors_near(moe.experts, moe.expert_groups));
  else if (moe.top_groups > moe.expert_groups)
    add("model.moe.top_groups = {} of model.moe.expert_groups = {} cannot be chosen; try top_groups {}",
        moe.top_groups, moe.expert_groups, moe.expert_groups);
  else if (k <= moe.experts && k > moe.top_groups * (moe.experts / moe.expert_groups))
    add("model.moe.top_groups = {} groups have {} experts, but model.moe.top_k = {} are chosen of them; try "
        "more top_groups",
        moe.top_groups, moe.top_groups * (moe.experts / moe.expert_groups), k);
  if (options.lora.rank > 0)
    add("model.lora.rank = {} and model.moe.experts = {}: adapters are for linear layers, and experts have "
        "none; set one of them to 0",
        options.lora.rank, moe.experts);
  return found;
}

ValueId mixture_of_experts(Network& net, const ModelOptions& options, ValueId x, const std::string& name,
                           const ExpertStyle& style) {
  const Builder::Scope part = net.scope(name);
  const MoeOptions& moe = options.moe;  // with_automatic_sizes() has filled it in
  const Gate& gate = find_gate(moe.gate);
  const int64_t b = net.shape(x)[0], t = net.shape(x)[1], m = net.shape(x)[2];
  // A token alone, when text is written, is a group.
  const int64_t groups = t % moe.groups == 0 ? moe.groups : 1;
  const ValueId grouped = groups == 1 ? x : net.reshape(x, {b * groups, t / groups, m});
  const Routed routed = route(net, moe, gate, grouped, name, style);
  const std::string experts = fmt::format("{}.{}.", name, style.experts);
  const Attrs slots{{"experts", moe.experts}, {"capacity", routed.capacity}};
  Rows rows{net.op("dispatch", {grouped, routed.at}, slots), net.op("slots_used", {routed.at}, slots),
            routed.rows};
  std::vector<ValueId> inside;
  for (const std::string_view up : style.up)
    inside.push_back(product(net, rows, experts + std::string(up), moe, moe.hidden, style,
                             TensorSplit::Side::kOutputs, style.deviation));
  rows.x = style.activate(net, inside);
  rows.x = product(net, rows, experts + std::string(style.down), moe, m, style, TensorSplit::Side::kInputs,
                   style.residual_deviation);
  ValueId y = net.op("combine", {rows.x, routed.at, routed.weights});
  if (groups > 1) y = net.reshape(y, {b, t, m});
  y = net.dropout(y);
  if (moe.shared == 0) return y;
  return net.op("add",
                {y, style.dense(net, x, fmt::format("{}.{}", name, style.shared), moe.shared * moe.hidden)});
}

ParameterCounts count_parameters(const Graph& graph) {
  ParameterCounts counts;
  for (const Value& value : graph.values) {
    if (value.role != Role::kParameter) continue;
    const int64_t elements = value.type.shape.elements();
    counts.total += elements;
    counts.active += value.attrs.has(kActiveExperts)
                         ? elements / value.type.shape[0] * value.attrs.integer(kActiveExperts)
                         : elements;
  }
  return counts;
}

}  // namespace trireme

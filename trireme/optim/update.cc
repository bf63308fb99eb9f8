// One function per optimizer, each a few nodes per parameter.
#include "trireme/optim/update.h"

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ir/builder.h"
#include "trireme/ir/trained.h"
#include "trireme/ops/table.h"
#include "trireme/optim/groups.h"
#include "trireme/optim/lr_schedule.h"

namespace trireme {
namespace {

// What an optimizer sees of one parameter.
struct Update1 {
  Builder& b;
  const OptimOptions& options;
  const Value& parameter;
  ValueId w;     // f32: the parameter, or its master
  ValueId half;  // the parameter where it has a master; kNoValue otherwise
  ValueId g, lr, scale, step;
  double average;  // decay; 0: none is kept

  double decay() const { return decay_of(options, parameter.name, parameter.type.shape.rank()); }
  // A state of the optimizer for this parameter, starting at zero.
  ValueId state(const char* prefix) const {
    return b.state(fmt::format("{}.{}", prefix, parameter.name), b.type(w), Role::kOptimizer,
                   companion_attrs(parameter));
  }
  void renew_weight(ValueId value) const {
    b.update(w, value);
    if (half != kNoValue)
      b.update(half, b.op("cast", {value}, {{"to", std::string(name(b.type(half).dtype))}}));
    if (average > 0) renew_average(value);
  }
  void renew_average(ValueId value) const {
    const ValueId old = b.declare(average_of(parameter));
    const ValueId mixed = b.op("add", {b.op("affine", {old}, {{"scale", average}}),
                                       b.op("affine", {value}, {{"scale", 1 - average}})});
    b.update(old, unless_skipped(b, mixed, old, scale));
  }
  ValueId squares(ValueId value) const { return b.op("sum_squares", {value}); }
};

void sgd(const Update1& u) {
  u.renew_weight(u.b.op("sgd", {u.w, u.g, u.lr, u.scale}, {{"weight_decay", u.decay()}}));
}

void momentum(const Update1& u, bool nesterov) {
  const ValueId velocity = u.state("u");
  const auto results = u.b.node(
      "momentum", {u.w, u.g, velocity, u.lr, u.scale},
      {{"momentum", u.options.momentum}, {"nesterov", int64_t{nesterov}}, {"weight_decay", u.decay()}});
  u.renew_weight(results[0]);
  u.b.update(velocity, results[1]);
}

Attrs adam_attrs(const Update1& u) {
  return {{"beta1", u.options.beta1},
          {"beta2", u.options.beta2},
          {"eps", u.options.eps},
          {"weight_decay", u.decay()}};
}

void adam(const Update1& u, bool decoupled) {
  const ValueId m = u.state("m"), v = u.state("v");
  Attrs attrs = adam_attrs(u);
  attrs.set("decoupled", int64_t{decoupled});
  const auto results = u.b.node("adam", {u.w, u.g, m, v, u.lr, u.scale, u.step}, attrs);
  u.renew_weight(results[0]);
  u.b.update(m, results[1]);
  u.b.update(v, results[2]);
}

void lars(const Update1& u) {
  const ValueId velocity = u.state("u");
  const auto results =
      u.b.node("lars", {u.w, u.g, velocity, u.squares(u.w), u.squares(u.g), u.lr, u.scale},
               {{"momentum", u.options.momentum}, {"weight_decay", u.decay()}, {"trust", u.options.trust}});
  u.renew_weight(results[0]);
  u.b.update(velocity, results[1]);
}

void lamb(const Update1& u) {
  const ValueId m = u.state("m"), v = u.state("v");
  const auto direction = u.b.node("lamb_direction", {u.w, u.g, m, v, u.scale, u.step}, adam_attrs(u));
  u.b.update(m, direction[1]);
  u.b.update(v, direction[2]);
  u.renew_weight(
      u.b.op("lamb_apply", {u.w, direction[0], u.squares(u.w), u.squares(direction[0]), u.lr, u.scale}));
}

struct Optimizer {
  std::string_view kind;
  void (*update)(const Update1&);
};
constexpr Optimizer kOptimizers[] = {
    {"sgd", sgd},
    {"momentum", [](const Update1& u) { momentum(u, u.options.nesterov); }},
    {"nesterov", [](const Update1& u) { momentum(u, true); }},
    {"adam", [](const Update1& u) { adam(u, false); }},
    {"adamw", [](const Update1& u) { adam(u, true); }},
    {"lars", lars},
    {"lamb", lamb},
};

const Optimizer& find_optimizer(const std::string& kind) {
  std::vector<std::string> names;
  for (const Optimizer& optimizer : kOptimizers) {
    if (optimizer.kind == kind) return optimizer;
    names.emplace_back(optimizer.kind);
  }
  throw_error("there is no optimizer '{}'; there are {}", kind, join(names, ", "));
}

void renew(Builder& b, const Value& buffer, ValueId scale, ValueId count, const Renewal& renewal) {
  const Builder::Scope scope(b, buffer.name);
  const ValueId old = b.declare(buffer);
  const bool is_sum = renewal.by == Renewal::By::kSum, is_weighted = renewal.by == Renewal::By::kWeightedSum;
  ValueId next = b.state(pending_name(buffer.name), buffer.type, is_sum ? Role::kGradient : Role::kPending,
                         is_weighted ? Attrs{{"of", buffer.name}} : Attrs());
  const double part = 1.0 / static_cast<double>(renewal.values);
  const auto times = [&](ValueId value, double factor) {
    return b.op("affine", {value}, {{"scale", factor}});
  };
  if (is_sum) next = times(next, part);
  if (is_weighted) {
    next = b.op("div", {next, count});
    if (renewal.values > 1) next = b.op("add", {times(old, 1 - part), times(next, part)});
  }
  b.update(old, unless_skipped(b, next, old, scale));
}

// The state that the optimizer takes for a 16-bit parameter: as that one starts, before it is rounded.
ValueId declare_master(Builder& b, const Value& parameter) {
  Attrs attrs = parameter.attrs;
  attrs.set("of", parameter.name);
  return b.state(master_name(parameter.name), {DType::f32, parameter.type.shape}, Role::kMaster,
                 std::move(attrs));
}

// `scale`, or NaN where the mean loss is above its limit or no number, which is below no limit.
ValueId scale_of_good_steps(Builder& b, ValueId scale, ValueId loss, ValueId count) {
  const Builder::Scope scope(b, "good");
  const ValueId limit = b.input("loss_limit", b.type(scale), Role::kScalar);
  const ValueId good = b.op("compare", {b.op("div", {loss, count}), limit}, {{"kind", "le"}});
  const ValueId zero = b.op("affine", {limit}, {{"scale", 0.0}});
  return b.op("select", {good, scale, b.op("div", {zero, zero})});
}

}  // namespace

Attrs companion_attrs(const Value& parameter) {
  Attrs attrs{{"init", "zeros"}, {"of", parameter.name}};
  for (const auto& [name, value] : parameter.attrs.items()) {
    if (name.starts_with("tensor_") || name == kExpertDim) attrs.set(name, value);
  }
  return attrs;
}

Value average_of(const Value& parameter) {
  Value state{.name = fmt::format("{}{}", kAverage, parameter.name),
              .type = {DType::f32, parameter.type.shape},
              .kind = Value::Kind::kState,
              .role = Role::kOptimizer,
              .attrs = companion_attrs(parameter)};
  for (const char* how : {"init", "scale", "file", "tensor"}) {
    for (const auto& [name, value] : parameter.attrs.items()) {
      if (name == how) state.attrs.set(name, value);
    }
  }
  state.attrs.set(kStartsAs, parameter.name);
  return state;
}

std::string pending_name(std::string_view buffer) {
  return fmt::format("new.{}", buffer);
}

std::string gradient_name(std::string_view parameter) {
  return fmt::format("grad.{}", parameter);
}

std::string master_name(std::string_view parameter) {
  return fmt::format("master.{}", parameter);
}

TensorType gradient_type(const Value& parameter, const UpdateOptions& train) {
  return train.gradient_precision == "f32" ? TensorType{DType::f32, parameter.type.shape} : parameter.type;
}

Value shared_gradient(const Value& parameter, const UpdateOptions& train, int number) {
  Value state{.name = fmt::format("{}~{}", gradient_name(parameter.name), number),
              .type = gradient_type(parameter, train),
              .kind = Value::Kind::kState,
              .role = Role::kGradient,
              .attrs = companion_attrs(parameter)};
  state.attrs.set("addend_of", gradient_name(parameter.name));
  state.attrs.set("addends", int64_t{1});
  return state;
}

Graph update_graph(const std::vector<Value>& parameters, const std::vector<Value>& buffers,
                   const OptimOptions& given, const UpdateOptions& train, const Renewal& renewal,
                   const SharedGradients& shared, const Tallies& tallies) {
  const OptimOptions options = with_scaled_decay(given, train.batch);
  const Optimizer& optimizer = find_optimizer(options.kind);
  Builder b(ops(), "update");
  const TensorType scalar{DType::f32, {}};
  const ValueId lr = b.input("lr", scalar, Role::kScalar), step = b.input("step", scalar, Role::kScalar),
                loss_scale = b.input("loss_scale", scalar, Role::kScalar);
  const ValueId count = b.state(kCountState, scalar, Role::kGradient),
                loss = b.state(kLossState, scalar, Role::kGradient);

  std::vector<ValueId> weights, halves, gradients;
  ValueId squares = kNoValue;
  for (const Value& parameter : parameters) {
    const ValueId declared = b.declare(parameter);
    const bool is_half = parameter.type.dtype != DType::f32;
    halves.push_back(is_half ? declared : kNoValue);
    weights.push_back(is_half ? declare_master(b, parameter) : declared);
    const Builder::Scope scope(b, parameter.name);
    const auto others = shared.find(parameter.name);
    Attrs attrs = companion_attrs(parameter);
    if (others != shared.end()) attrs.set("addends", int64_t{1});
    gradients.push_back(
        b.state(gradient_name(parameter.name), gradient_type(parameter, train), Role::kGradient, attrs));
    if (others != shared.end()) {
      for (const Value& other : others->second)
        gradients.back() = b.op("add", {gradients.back(), b.declare(other)});
    }
    const ValueId part = b.op("sum_squares", {gradients.back()});
    squares = squares == kNoValue ? part : b.op("add", {squares, part});
  }
  std::vector<ValueId> scale =
      b.node("gradient_scale", {squares, count, loss_scale}, {{"max_norm", train.clip_norm}});
  if (train.watches_losses) scale[0] = scale_of_good_steps(b, scale[0], loss, count);
  std::map<double, ValueId> rates = {{1.0, lr}};  // by the factor of groups
  const auto rate_of = [&](const Value& parameter) {
    const ParameterGroup* group = group_of(options, parameter.name);
    const double factor = group ? group->lr_scale : 1.0;
    const auto [rate, anew] = rates.try_emplace(factor, kNoValue);
    if (anew) rate->second = b.op("affine", {lr}, {{"scale", factor}}, "lr.scaled");
    return rate->second;
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ValueId rate = rate_of(parameters[i]);
    const Builder::Scope scope(b, parameters[i].name);
    optimizer.update(
        {b, options, parameters[i], weights[i], halves[i], gradients[i], rate, scale[0], step, train.ema});
  }
  for (const Value& buffer : buffers) renew(b, buffer, scale[0], count, renewal);
  b.output("scale", scale[0]);
  b.output("norm", scale[1]);
  b.output("loss", loss);
  b.output("count", count);
  add_tallies(b, tallies, scale[0]);
  if (train.noise_scale) {
    b.output("squares", b.state(kSquaresState, scalar, Role::kGradient));
    b.output("count_squares", b.state(kCountSquaresState, scalar, Role::kGradient));
  }
  return b.take();
}

}  // namespace trireme

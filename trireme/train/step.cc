// Model -> forward graph -> precision -> autodiff.
#include "trireme/train/step.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/ops/table.h"
#include "trireme/passes/autodiff.h"
#include "trireme/passes/precision.h"
#include "trireme/program/build.h"
#include "trireme/train/optim/update.h"
#include "trireme/train/shards.h"

namespace trireme {
namespace {

// What would otherwise be an error deep inside a model, in words of the settings.
void check_sizes(const ModelRecord& model, const ModelOptions& options, const StepShape& shape) {
  const bool tokens = model.input == InputKind::kTokens;
  if (shape.sample.rank() != (tokens ? 1 : 3)) {
    throw_error("a sample for model.family = {} has the form {}, but this one is {}", model.family,
                tokens ? "[seq]" : "[channels, height, width]", to_string(shape.sample));
  }
  for (int64_t extent : shape.sample) {
    if (extent < 1) throw_error("a sample of {} is empty", to_string(shape.sample));
  }
  if (shape.rows < 1) throw_error("a microbatch has {} rows, 1 or more expected", shape.rows);
  if (tokens && options.vocab < 1) throw_error("model.vocab = {}, 1 or more expected", options.vocab);
  if (!tokens && options.classes < 1) throw_error("model.classes = {}, 1 or more expected", options.classes);
}

enum class Outputs { kLoss, kLossAndLogits, kLogits };
Graph model_graph(std::string name, const ModelOptions& options, const TrainOptions& train,
                  const StepShape& shape, Mode mode, Outputs outputs, DType precision) {
  const ModelRecord& model = find_model(options.family);
  check_sizes(model, options, shape);
  const bool tokens = model.input == InputKind::kTokens;
  Shape input_shape{shape.rows}, target_shape{shape.rows};
  for (int64_t extent : shape.sample) {
    input_shape.push_back(extent);
    if (tokens) target_shape.push_back(extent);
  }
  Builder b(ops(), std::move(name));
  const ValueId input =
      b.input(tokens ? "ids" : "images", {tokens ? DType::i32 : DType::f32, input_shape}, Role::kBatch);
  Network net(b, mode, options.dropout, options.batch_norm_groups);
  const ValueId logits = model.logits(net, options, input);
  if (outputs != Outputs::kLogits) {
    const ValueId targets = b.input(tokens ? "targets" : "labels", {DType::i32, target_shape}, Role::kBatch);
    const Builder::Scope scope(b, "loss");
    const double smoothing = mode == Mode::kTrain ? train.label_smoothing : 0.0;
    const std::vector<ValueId> loss = b.node("cross_entropy", {logits, targets},
                                             {{"ignore_index", int64_t{-1}}, {"label_smoothing", smoothing}});
    b.output("loss", loss[0]);
    b.output("count", loss[1]);
  }
  if (outputs != Outputs::kLoss) b.output("logits", logits, OutputRole::kRows);
  return lower_precision(b.take(), precision, ops());
}

std::vector<ValueId> parameters_of(const Graph& graph) {
  std::vector<ValueId> result;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].role == Role::kParameter) result.push_back(static_cast<ValueId>(i));
  }
  return result;
}

// The states that the forward part itself renews: running statistics.
std::vector<Value> renewed_states(const Graph& forward) {
  std::vector<Value> result;
  for (const Update& update : forward.updates) result.push_back(forward.values[update.state]);
  return result;
}

enum class Accumulate { kReplace, kAdd };

// Keeps what the forward part renews in pending states, so that a step that fails later leaves no trace. The
// first microbatch starts from the states themselves, the next ones from what is pending.
Graph with_pending_states(Graph forward, Accumulate accumulate, Role role) {
  if (accumulate == Accumulate::kAdd) {
    for (const Update& update : forward.updates) {
      Value& state = forward.values[update.state];
      state.name = pending_name(state.name);
      state.role = Role::kPending;
      state.attrs = {};
    }
    return forward;
  }
  const std::vector<Update> updates = std::exchange(forward.updates, {});
  Builder b(ops(), std::move(forward));
  for (const Update& update : updates) {
    const Value state = b.graph().values[update.state];
    b.update(b.state(pending_name(state.name), state.type, role), update.value);
  }
  return b.take();
}

// Adds the backward part and stores gradients, loss and count in states.
Graph with_gradients(Graph forward, Accumulate accumulate, Role pending, const TrainOptions& train) {
  forward = with_pending_states(std::move(forward), accumulate, pending);
  const std::vector<ValueId> parameters = parameters_of(forward);
  const ValueId loss = forward.outputs.at(0).value, count = forward.outputs.at(1).value;
  forward.outputs.clear();
  Builder b(ops(), std::move(forward));
  const ValueId loss_scale = b.input("loss_scale", {DType::f32, {}}, Role::kScalar);
  const std::vector<ValueId> gradients = differentiate(b, loss, loss_scale, parameters).gradients;
  const auto store = [&](std::string_view name, ValueId value, Attrs attrs = {}) {
    const ValueId state = b.state(name, b.type(value), Role::kGradient, std::move(attrs));
    const Builder::Scope scope(b, name);
    b.update(state, accumulate == Accumulate::kAdd ? b.op("add", {state, value}) : value);
  };
  // In the order in which they are made, so that neighbours in memory are reduced together.
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return gradients[i]; });
  ValueId squares = kNoValue;
  for (size_t i : order) {
    // A parameter that the loss does not depend on has a gradient of zeros.
    const ValueId gradient =
        gradients[i] != kNoValue ? gradients[i] : b.op("affine", {parameters[i]}, {{"scale", 0.0}});
    // Before it is stored: where the state is split, addends are put together for that.
    if (train.noise_scale) {
      const Builder::Scope scope(b, "squares");
      const ValueId part = b.op("sum_squares", {gradient}, {{"of", "addends"}});
      squares = squares == kNoValue ? part : b.op("add", {squares, part});
    }
    const Value parameter = b.graph().values[parameters[i]];
    store(gradient_name(parameter.name), gradient, companion_attrs(parameter));
  }
  store(kLossState, loss);
  store(kCountState, count);
  if (train.noise_scale) {
    store(kSquaresState, squares);
    store(kCountSquaresState, b.op("sum_squares", {count}, {{"of", "addends"}}));
  }
  b.output("loss", loss, OutputRole::kAddend);
  b.output("count", count, OutputRole::kAddend);
  return b.take();
}

}  // namespace

DType precision_of(const TrainOptions& train) {
  const std::optional<DType> format = parse_dtype(train.precision);
  if (!format || (*format != DType::f32 && *format != DType::bf16 && *format != DType::f16)) {
    throw_error("train.precision is '{}'; f32, bf16 or f16 expected", train.precision);
  }
  return *format;
}

Schedule schedule_of(const TrainOptions& train, const Plan& plan, int rank) {
  return train.shards > 0 ? shards(train.shards, plan, rank) : accumulate(train.accumulate);
}

StepGraphs step_graphs(const ModelOptions& model, const TrainOptions& train, const OptimOptions& optim,
                       const StepShape& shape, const Schedule& schedule) {
  const DType precision = precision_of(train);
  const bool wholes = schedule.deal == Schedule::Deal::kWholes;
  StepShape once = shape, evaluated = shape;
  if (wholes) {
    TRIREME_CHECK(shape.rows % schedule.microbatches == 0);
    once.rows = shape.rows / schedule.microbatches;
    evaluated.rows = shape.rows / schedule.own;
  }
  StepGraphs result;
  const Graph forward = model_graph("first", model, train, once, Mode::kTrain, Outputs::kLoss, precision);
  for (ValueId id : parameters_of(forward)) result.parameters.push_back(forward.values[id]);
  // What each whole microbatch makes of a buffer is added up like gradients, and the update takes the mean.
  const Role pending = wholes ? Role::kGradient : Role::kPending;
  Graph first = with_gradients(forward, Accumulate::kReplace, pending, train);
  const std::vector<Graph> merges = wholes ? shard_graphs(first, schedule.own) : std::vector<Graph>();
  const Rows rows = wholes ? Rows::kOfOneRank : Rows::kOfAllRanks;
  result.segments.emplace_back(std::move(first), SegmentKind::kForwardBackward, rows);
  if (!wholes && schedule.microbatches > 1) {
    Graph next = forward;
    next.name = "next";
    result.segments.emplace_back(with_gradients(std::move(next), Accumulate::kAdd, pending, train));
  }
  result.segments.emplace_back(update_graph(result.parameters, renewed_states(forward), optim, train,
                                            wholes ? schedule.microbatches : 0),
                               SegmentKind::kUpdate);
  result.segments.emplace_back(
      model_graph("evaluate", model, train, evaluated, Mode::kEvaluate, Outputs::kLossAndLogits, precision),
      SegmentKind::kEvaluate);
  for (const Graph& merge : merges)
    result.segments.emplace_back(merge, SegmentKind::kForwardBackward, Rows::kOfOneRank);
  return result;
}

Graph forward_graph(const ModelOptions& model, const StepShape& shape, DType precision) {
  return optimized(model_graph("forward", model, {}, shape, Mode::kEvaluate, Outputs::kLogits, precision));
}

std::vector<StepSegment> generating_graphs(const ModelOptions& model) {
  const auto segment = [&](const char* name, int64_t tokens, Mode mode) {
    return StepSegment(
        optimized(model_graph(name, model, {}, {1, Shape{tokens}}, mode, Outputs::kLogits, DType::f32)),
        SegmentKind::kEvaluate);
  };
  std::vector<StepSegment> segments = {segment("prefill", model.seq, Mode::kPrefill)};
  if (find_model(model.family).decodes == Decodes::kYes)
    segments.push_back(segment("decode", 1, Mode::kDecode));
  return segments;
}

double model_flops(const ModelOptions& model, const Program& program, int64_t batch, int64_t microbatches) {
  if (model.family != "gpt" && model.family != "llama") {
    return cost_of(program.segments[program.segment("first")].graph).flops *
           static_cast<double>(microbatches);
  }
  int64_t parameters = 0;
  for (const State& slot : program.states) {
    if (slot.role == Role::kParameter && slot.name != "wpe.weight") parameters += slot.part.whole.elements();
  }
  const double per_token =
      6 * static_cast<double>(parameters) + 12 * static_cast<double>(model.layers * model.hidden * model.seq);
  return per_token * static_cast<double>(batch * model.seq);
}

}  // namespace trireme

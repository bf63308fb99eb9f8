// Model -> forward graph -> precision -> autodiff.
#include "trireme/train/step.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/exchange/choice.h"
#include "trireme/ir/trained.h"
#include "trireme/ops/products.h"
#include "trireme/ops/table.h"
#include "trireme/optim/groups.h"
#include "trireme/optim/parameter_patterns.h"
#include "trireme/optim/tallies.h"
#include "trireme/optim/update.h"
#include "trireme/passes/half_weights.h"
#include "trireme/passes/pins.h"
#include "trireme/passes/precision.h"
#include "trireme/passes/substitute.h"
#include "trireme/plan/combinations.h"
#include "trireme/program/build.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/train/features.h"
#include "trireme/train/lora.h"
#include "trireme/train/shards.h"
#include "trireme/train/step_gradients.h"
#include "trireme/train/step_updates.h"

namespace trireme {
namespace {

// What would otherwise be an error deep inside a model, in words of the settings.
void check_sizes(const Model& model, const StepShape& shape) {
  const ModelRecord& record = model.record;
  const bool tokens = reads_text(record), images = record.input == InputKind::kImages;
  const bool pairs = record.input == InputKind::kPairs;
  if ((tokens || images) && shape.sample.rank() != (images ? 3 : pairs ? 2 : 1)) {
    throw_error("a sample for model.family = {} has the form {}, but this one is {}", record.family,
                images  ? "[channels, height, width]"
                : pairs ? "[source_seq, seq]"
                        : "[seq]",
                to_string(shape.sample));
  }
  for (int64_t extent : shape.sample) {
    if (extent < 1) throw_error("a sample of {} is empty", to_string(shape.sample));
  }
  if (shape.rows < 1) throw_error("a microbatch has {} rows, 1 or more expected", shape.rows);
  if (tokens && model.options.vocab < 1)
    throw_error("model.vocab = {}, 1 or more expected", model.options.vocab);
  if (images && model.options.classes < 1)
    throw_error("model.classes = {}, 1 or more expected", model.options.classes);
}

// Mistakes in the record of a user's model.
void check_record(const ModelRecord& record, const std::vector<SampleTensor>& tensors) {
  if (has_logits(record) == static_cast<bool>(record.loss) || (record.logits && record.logits_of_all))
    throw_error("the model '{}' has {}; one of them expected", record.family,
                record.loss          ? "both logits and a loss"
                : has_logits(record) ? "two functions for logits"
                                     : "neither logits nor a loss");
  if (record.logits && (tensors.size() != 2 || tensors[1].dtype != DType::i32))
    throw_error("the model '{}' has logits, so that a batch is an input and i32 targets, but {} tensors{}",
                record.family, tensors.size(),
                tensors.size() == 2 ? " of other types were found" : " were found");
  if (record.logits_of_all && (tensors.size() < 2 || tensors.back().dtype != DType::i32))
    throw_error("the model '{}' has logits, so that a batch ends with i32 targets, which are not there",
                record.family);
}

ValueId checked_scalar(const Builder& b, ValueId value, const ModelRecord& record, std::string_view what) {
  if (value == kNoValue || b.type(value) != TensorType{DType::f32, {}})
    throw_error("the {} of the model '{}' is {}, expected an f32 scalar, added up over all targets", what,
                record.family, value == kNoValue ? "missing" : to_string(b.type(value)));
  return value;
}

Network::Adapters adapters_of(const LoraOptions& lora) {
  if (lora.rank == 0) return {};
  return {lora.rank, lora_scale(lora), [targets = lora.targets](std::string_view layer) {
            return targets.empty() || fits_any(targets, layer);
          }};
}

void check_adapters(const Network& net, const Model& model) {
  const LoraOptions& lora = model.options.lora;
  if (lora.rank == 0) return;
  if (net.linear_layers().empty())
    throw_error("model.lora is about linear layers, and model.family = {} has none", model.record.family);
  check_patterns("model.lora.targets", lora.targets, net.linear_layers(), "layer");
}

// A device that is asked for here need not be here: GPUs have kernels for all but what has a substitute.
Graph for_device(Graph graph, const TrainOptions& train) {
  if (train.device == "cpu") return graph;
  return with_substitutes(graph, ops(), [](const Node&) { return false; });
}

// kNone: what a graph leaves in states is all that is wanted of it.
enum class Outputs { kNone, kLoss, kLossAndLogits, kLogits };
Graph model_graph(std::string name, const Model& model, const TrainOptions& train, const StepShape& shape,
                  Mode mode, Outputs outputs, DType precision, const NormGroups& norm_groups,
                  int64_t lines = 1) {
  check_sizes(model, shape);
  const ModelRecord& record = model.record;
  const std::vector<SampleTensor> tensors = batch_tensors(record, shape.sample);
  check_record(record, tensors);
  Builder b(ops(), std::move(name));
  const auto input = [&](const SampleTensor& tensor) {
    Shape rows{shape.rows};
    for (int64_t extent : tensor.row) rows.push_back(extent);
    return b.input(tensor.name, {tensor.dtype, rows}, Role::kBatch);
  };
  Network net(b, mode, model.options.dropout, norm_groups);
  net.set_adapters(adapters_of(model.options.lora));
  net.set_lines(lines);
  if (record.loss) {
    if (outputs != Outputs::kLoss && outputs != Outputs::kLossAndLogits)
      throw_error("the model '{}' has a loss, but no logits", record.family);
    std::vector<ValueId> inputs;
    for (const SampleTensor& tensor : tensors) inputs.push_back(input(tensor));
    const Loss loss = record.loss(net, model.options, inputs);
    check_adapters(net, model);
    b.output("loss", checked_scalar(b, loss.sum, record, "loss"));
    b.output("count", checked_scalar(b, loss.count, record, "count"));
    for (const Network::Tally& tally : net.tallies())
      b.output(tally_name(tally.role, tally.layer), tally.value, tally.role);
    return lower_precision(for_device(b.take(), train), precision, ops());
  }
  std::vector<ValueId> inputs;
  for (const SampleTensor& tensor : std::span(tensors).first(tensors.size() - 1))
    inputs.push_back(input(tensor));
  const ValueId logits = record.logits ? record.logits(net, model.options, inputs[0])
                                       : record.logits_of_all(net, model.options, inputs);
  check_adapters(net, model);
  if (outputs == Outputs::kLoss || outputs == Outputs::kLossAndLogits) {
    const double smoothing = mode == Mode::kTrain ? train.label_smoothing : 0.0;
    const ValueId targets = input(tensors.back());
    const Builder::Scope scope(b, "loss");
    const Loss loss = net.cross_entropy(logits, targets, smoothing);
    b.output("loss", loss.sum);
    b.output("count", loss.count);
  }
  for (const Network::Tally& tally : net.tallies())
    b.output(tally_name(tally.role, tally.layer), tally.value, tally.role);
  if (outputs == Outputs::kLogits || outputs == Outputs::kLossAndLogits)
    b.output("logits", logits, OutputRole::kRows);
  return lower_precision(for_device(b.take(), train), precision, ops());
}

Graph model_graph(std::string name, const Model& model, const TrainOptions& train, const StepShape& shape,
                  Mode mode, Outputs outputs, DType precision) {
  return model_graph(std::move(name), model, train, shape, mode, outputs, precision,
                     {.count = model.options.batch_norm_groups});
}

// Where replicas compute by themselves, no group has rows of two ranks, and each replica keeps the running
// statistics of its own.
NormGroups norm_groups(const Model& model, const Plan& plan) {
  const int64_t given = model.options.batch_norm_groups;
  if (!plan.agreement.has_own_weights() && !plan.agreement.servers()) return {.count = given};
  const int64_t parts = batch_parts(plan);
  if (given != 1 && given % parts != 0)
    throw_error(
        "model.batch_norm_groups is {}, but {} ranks compute by themselves under this exchange, so that each "
        "group is of one of them; a multiple of {} is needed",
        given, parts, parts);
  const int64_t count = given == 1 ? parts : given;
  const Servers* const servers = plan.agreement.servers();
  return {count, count / (servers ? servers->workers : replicas_of(plan.mesh))};
}

}  // namespace

DType precision_of(const TrainOptions& train) {
  const std::optional<DType> format = parse_dtype(train.precision);
  if (!format || (*format != DType::f32 && *format != DType::bf16 && *format != DType::f16)) {
    throw_error("train.precision is '{}'; f32, bf16 or f16 expected", train.precision);
  }
  return *format;
}

std::optional<DType> half_weights_of(const TrainOptions& train) {
  const std::string &weights = train.weight_precision, &gradients = train.gradient_precision;
  const DType precision = precision_of(train);
  if (weights != "f32" && weights != train.precision)
    throw_error(
        "train.weight_precision is '{}' and train.precision '{}'; weights are f32, or in the 16 bits that "
        "they are used in",
        weights, train.precision);
  if (gradients != "f32" && gradients != weights)
    throw_error(
        "train.gradient_precision is '{}' and train.weight_precision '{}'; gradients are f32, or in the 16 "
        "bits of the weights",
        gradients, weights);
  return weights == "f32" ? std::nullopt : std::optional(precision);
}

Schedule schedule_of(const TrainOptions& train, const Plan& plan, int rank) {
  return train.shards > 0 ? shards(train.shards, plan, rank) : accumulate(train.accumulate);
}

namespace {

// Where the plan cuts the model.
Cut cut_of(const Graph& forward, const Plan& plan, int64_t microbatches) {
  if (plan.offload && plan.offload->cuts_model()) return cut_by_weights(forward);
  if (plan.pipeline_stages() == 1) return {};
  const int chunks = pipeline_of(plan, microbatches).chunks;
  return plan.stages.empty() ? balanced_cut(forward, chunks) : cut_at(forward, chunks, plan.stages);
}

// Beside adapters all is frozen but for what starts anew. Where the weights came from elsewhere, they are
// still there: checkpoints need not have them.
void freeze_base(Graph& graph, const TrainOptions& train) {
  for (Value& value : graph.values) {
    if (value.role != Role::kParameter || value.attrs.has(kAdapts) || fits_any(train.init_fresh, value.name))
      continue;
    value.attrs.set(kFrozen, int64_t{1});
    if (!train.init_from.empty()) value.attrs.set(kBase, int64_t{1});
  }
}

// Marks the parameters that are not trained.
void mark_frozen(Graph& graph, const Model& model, const TrainOptions& train) {
  graph = with_frozen(std::move(graph), train.freeze);
  if (model.options.lora.rank > 0) freeze_base(graph, train);
}

void freeze(Graph& forward, Graph& evaluate, const Model& model, const TrainOptions& train) {
  check_patterns("train.freeze", train.freeze, parameter_names(forward));
  for (Graph* graph : {&forward, &evaluate}) mark_frozen(*graph, model, train);
  if (!train.freeze.empty() && parameters_of(forward).empty())
    throw_error(
        "train.freeze = {} freezes every parameter of the model, so that nothing is left to train; "
        "leave the head out of it, for example",
        join(train.freeze, ", "));
}

// The same graph on averages of what is trained.
Graph with_averages(Graph evaluate) {
  for (Value& value : evaluate.values) {
    if (is_trained(value)) value = average_of(value);
  }
  return evaluate;
}

// Of the weights that training and evaluation both read in 16 bits alone.
void halve_weights(Graph& forward, Graph& evaluate, DType format) {
  std::set<std::string> names = rounded_parameters(forward, format);
  const std::set<std::string> evaluated = rounded_parameters(evaluate, format);
  for (const Value& value : evaluate.values) {
    if (is_trained(value) && !evaluated.contains(value.name)) names.erase(value.name);
  }
  forward = with_half_weights(forward, names, format);
  evaluate = with_half_weights(evaluate, names, format);
}

}  // namespace

StepGraphs step_graphs(const Model& model, const TrainOptions& train, const OptimOptions& optim,
                       const StepShape& shape, const Schedule& schedule, const Plan& plan) {
  Features features = features_of(plan, train);
  check_combinations(features);
  const DType precision = precision_of(train);
  const bool wholes = schedule.deal == Schedule::Deal::kWholes;
  StepShape once = shape, evaluated = shape;
  if (wholes) {
    if (shape.rows % schedule.microbatches != 0)
      throw_error("a batch of {} rows cannot be split evenly into train.shards = {}", shape.rows,
                  schedule.microbatches);
    once.rows = shape.rows / schedule.microbatches;
    evaluated.rows = shape.rows / schedule.own;
  }
  StepGraphs result;
  Graph forward = model_graph("first", model, train, once, Mode::kTrain, Outputs::kLoss, precision,
                              norm_groups(model, plan));
  Graph evaluate =
      model_graph("evaluate", model, train, evaluated, Mode::kEvaluate, Outputs::kLossAndLogits, precision);
  freeze(forward, evaluate, model, train);
  if (!renewed_states(forward).empty()) features.insert(Feature::kRunningStatistics);
  check_combinations(features);
  if (train.ema > 0) evaluate = with_averages(std::move(evaluate));
  if (half_weights_of(train)) halve_weights(forward, evaluate, precision);
  result.cut = cut_of(forward, plan, schedule.microbatches);
  if (result.cut.chunks > 1) forward = with_own_casts(forward, result.cut, ops());
  std::vector<std::string> trained;
  for (ValueId id : parameters_of(forward)) {
    result.parameters.push_back(forward.values[id]);
    trained.push_back(forward.values[id].name);
  }
  if (trained.empty())
    throw_error("the model '{}' has no parameters, so there is nothing to train", model.record.family);
  check_groups(optim, parameter_names(forward), trained);
  // What each whole microbatch makes of a buffer is added up like gradients, and the update takes the mean.
  const Role pending = wholes ? Role::kGradient : Role::kPending;
  Graph first = with_gradients(forward, Accumulate::kReplace, pending, train, result.cut);
  if (!tallies_of(first).sums.empty()) {
    features.insert(Feature::kExperts);
    check_combinations(features);
  }
  std::vector<Graph> updates = step_updates(forward, first, result.cut, schedule, plan, optim, train);
  const std::vector<Graph> merges = wholes ? shard_graphs(first, schedule.own) : std::vector<Graph>();
  const Rows rows = wholes ? Rows::kOfOneRank : Rows::kOfAllRanks;
  result.segments.emplace_back(std::move(first), SegmentKind::kForwardBackward, rows);
  if (!wholes && schedule.microbatches > 1) {
    Graph next = forward;
    next.name = "next";
    result.segments.emplace_back(
        with_gradients(std::move(next), Accumulate::kAdd, pending, train, result.cut));
  }
  for (Graph& update : updates) result.segments.emplace_back(std::move(update), SegmentKind::kUpdate);
  result.segments.emplace_back(std::move(evaluate), SegmentKind::kEvaluate);
  for (const Graph& merge : merges)
    result.segments.emplace_back(merge, SegmentKind::kForwardBackward, Rows::kOfOneRank);
  return result;
}

Units model_units(const Model& model, const TrainOptions& train, const StepShape& shape) {
  return units_of(
      model_graph("first", model, train, shape, Mode::kTrain, Outputs::kLoss, precision_of(train)));
}

Graph forward_graph(const Model& model, const StepShape& shape, DType precision) {
  return optimized(model_graph("forward", model, {}, shape, Mode::kEvaluate, Outputs::kLogits, precision));
}

std::vector<StepSegment> generating_graphs(const Model& model, const GeneratingShape& shape) {
  std::vector<StepSegment> segments;
  const auto add = [&](const char* name, int64_t number, const StepShape& step, Mode mode, Outputs outputs) {
    segments.emplace_back(model_graph(fmt::format("{}{}", name, number), model, {}, step, mode, outputs,
                                      DType::f32, {}, shape.lines),
                          SegmentKind::kEvaluate);
  };
  if (model.record.decodes == Decodes::kNo) {
    const Shape window = model.record.input == InputKind::kPairs ? model.record.usual_sample(model.options)
                                                                 : Shape{model.options.seq};
    for (const int64_t texts : shape.texts)
      add("window", texts, {texts, window}, Mode::kWindow, Outputs::kLogits);
    return segments;
  }
  for (const int64_t tokens : shape.tokens)
    add("read", tokens, {1, Shape{tokens}}, Mode::kDecode, Outputs::kNone);
  for (const int64_t texts : shape.texts)
    add("next", texts, {texts, Shape{1}}, Mode::kDecode, Outputs::kLogits);
  return segments;
}

double model_flops(const Model& model, const TrainOptions& train, const StepShape& shape) {
  Graph forward =
      model_graph("first", model, train, shape, Mode::kTrain, Outputs::kLoss, precision_of(train));
  mark_frozen(forward, model, train);
  const Graph step = with_gradients(std::move(forward), Accumulate::kReplace, Role::kPending, train, {});
  return product_flops(optimized(step)) * static_cast<double>(train.accumulate);
}

int64_t trained_parameters(const Program& program) {
  int64_t total = 0;
  for (const State& state : program.states) {
    if (state.role == Role::kParameter && !is_frozen(state.role, state.attrs))
      total += state.part.whole.elements();
  }
  for (const Value& state : program.remote_states) {
    if (is_trained(state)) total += state.type.shape.elements();
  }
  return total;
}

}  // namespace trireme

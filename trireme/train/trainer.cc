// Feeds microbatches to the program and turns sums into means.
#include "trireme/train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/passes/pins.h"
#include "trireme/train/optim/update.h"
#include "trireme/train/rank_graphs.h"
#include "trireme/train/state_reach.h"

namespace trireme {
namespace {

// Loss scales of f16, for a mean over targets. The loss is a sum here, so that its gradients are larger by
// the number of targets and the scales smaller.
constexpr double kFirstMeanScale = 65536, kLargestMeanScale = 65536 * 256, kSmallestMeanScale = 1;
constexpr int64_t kGoodSteps = 1000;  // after which the loss scale is doubled

float initial_value(std::string_view kind, double scale, RngKey key, uint64_t element) {
  if (kind == "ones") return 1;
  if (kind == "normal") return static_cast<float>(scale) * normal(key, element);
  if (kind == "uniform") return static_cast<float>(scale) * (2 * uniform(key, element) - 1);
  return 0;
}

void set_scalar(Executor& executor, int segment, std::string_view name, double value) {
  const float narrow = static_cast<float>(value);
  executor.set_input(segment, name, &narrow, sizeof narrow);
}

// The targets of one microbatch, up to the next power of two, so that dividing a scale by it is exact.
double targets_of(const StepShape& shape) {
  const bool tokens = shape.sample.rank() == 1;
  return std::exp2(
      std::ceil(std::log2(static_cast<double>(tokens ? shape.rows * shape.sample[0] : shape.rows))));
}

bool has_input(const Graph& graph, std::string_view name) {
  return graph.find(name) != kNoValue;
}

}  // namespace

Program step_program(const ModelOptions& model, const TrainOptions& train, const OptimOptions& optim,
                     const StepShape& shape, const Device& device, const RankOptions& ranks) {
  const ShardShare shards = shards_of(train, ranks.plan, ranks.rank);
  StepShape once = shape;
  if (shards.total > 0) {
    TRIREME_CHECK(shape.rows % shards.total == 0);
    once.rows = shape.rows / shards.total;
    once.evaluate_rows = shape.rows / shards.own;
  }
  batch_rows(ranks.plan, shards.total > 0 ? once.evaluate_rows : shape.rows,
             ranks.rank);  // there must be some
  std::vector<Graph> graphs = step_graphs(model, train, optim, once).graphs;
  if (shards.total > 0) std::ranges::move(shard_graphs(graphs[0], shards.own), std::back_inserter(graphs));
  RankGraphs local =
      rank_graphs(graphs, ranks.plan, ranks.rank, shards.total > 0 ? Rows::kOfOneRank : Rows::kOfAllRanks);
  for (Graph& graph : local.graphs) graph = gathered(graph, group_query(device));
  return build_program(std::move(local.graphs), workspace_query(device), local.parts);
}

void initialise_states(Executor& executor, uint64_t seed) {
  std::vector<float> values;
  for (const StateSlot& slot : executor.program().states) {
    TRIREME_CHECK(slot.type.dtype == DType::f32);
    const std::string_view kind = slot.attrs.text("init", "zeros");
    const double scale = slot.attrs.real("scale", 0);
    const RngKey key{seed, stream_id(slot.name)};
    values.resize(slot.type.shape.elements());
    for_each_run(slot.part, [&](int64_t whole, int64_t local, int64_t count) {
      for (int64_t i = 0; i < count; ++i) values[local + i] = initial_value(kind, scale, key, whole + i);
    });
    executor.write_state(slot.name, values.data(), slot.type.bytes());
  }
}

Trainer::Trainer(Program program, const TrainOptions& train, const StepShape& shape, Device& device,
                 const RankOptions& ranks)
    : train_(train),
      shape_(shape),
      ranks_(ranks),
      shards_(shards_of(train, ranks.plan, ranks.rank)),
      rows_at_once_(shards_.total > 0 ? shape.rows / shards_.own : shape.rows),
      rows_(batch_rows(ranks.plan, rows_at_once_, ranks.rank)),
      half_(precision_of(train) == DType::f16),
      executor_(std::move(program), device, ranks.communicator),
      first_(executor_.program().segment("first")),
      update_(executor_.program().segment("update")),
      evaluate_(executor_.program().segment("evaluate")),
      pieces_(pieces()) {
  TRIREME_CHECK((ranks.plan.mesh.ranks() == 1 || ranks.communicator != nullptr));
  TRIREME_CHECK((shards_.total == 0 || ranks.plan.mesh.ranks() == 1 || ranks.communicator->adds_in_pairs()));
  if (half_) loss_scale = kFirstMeanScale / targets_of(shape_);
}

void Trainer::initialise(uint64_t seed) {
  initialise_states(executor_, seed);
}

std::vector<Trainer::Piece> Trainer::pieces() const {
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < shards_.own; ++i) {
    const ShardSegments segments = segments_of_shard(i, shards_.own);
    const int64_t number = shards_.first + i;
    pieces.push_back({program().segment(segments.compute), program().segment(segments.merge),
                      number * rows_.size, number});
  }
  if (!pieces.empty()) return pieces;
  for (int64_t i = 0; i < train_.accumulate; ++i) {
    pieces.push_back(
        {program().segment(i == 0 ? "first" : "next"), /*merge=*/-1, i * shape_.rows + rows_.begin, i});
  }
  return pieces;
}

std::vector<Part> Trainer::own_rows() const {
  std::vector<Part> parts;
  for (const Piece& piece : pieces_) parts.push_back({piece.row, rows_.size});
  return parts;
}

std::vector<Part> Trainer::own_evaluation_rows() const {
  std::vector<Part> parts;
  for (int64_t row = 0; row < shape_.rows; row += rows_at_once_)
    parts.push_back({row + rows_.begin, rows_.size});
  return parts;
}

void Trainer::load_rows(int segment, Batch& batch, int64_t first_row) {
  const int64_t place = batch.place_of(first_row, rows_.size);
  for (auto& [name, tensor] : batch.tensors) {
    if (tensor.shape[0] < place + rows_.size)
      throw_error("the batch has {} rows of '{}', fewer than of its other tensors", tensor.shape[0], name);
    const size_t row_bytes =
        static_cast<size_t>(tensor.shape.elements(1, tensor.shape.rank())) * size_of(tensor.dtype);
    executor_.set_input(segment, name, tensor.bytes.data() + place * row_bytes, rows_.size * row_bytes);
  }
}

void Trainer::forward_backward(Batch& batch, int64_t step) {
  const int64_t all_pieces = shards_.total > 0 ? shards_.total : train_.accumulate;
  for (const auto& [segment, merge, row, number] : pieces_) {
    load_rows(segment, batch, row);
    set_scalar(executor_, segment, "loss_scale", loss_scale);
    if (has_input(program().segments[segment].graph, "rng")) {
      const std::array<int64_t, 2> rng{train_.seed, step * all_pieces + number};
      executor_.set_input(segment, "rng", rng.data(), sizeof rng);
    }
    executor_.run(segment);
    // Several ranks find out together, below: the loss of one is not known to the others yet.
    const float loss = executor_.scalar_output(segment, "loss");
    if (!std::isfinite(loss) && !ranks_.communicator) explain_bad_loss(segment, loss, step);
    if (merge >= 0) executor_.run(merge);
  }
}

StepResult Trainer::update(int64_t step, double rate) {
  set_scalar(executor_, update_, "lr", rate);
  set_scalar(executor_, update_, "step", static_cast<double>(step + 1));
  set_scalar(executor_, update_, "loss_scale", loss_scale);
  executor_.run(update_);

  StepResult result;
  result.norm = executor_.scalar_output(update_, "norm");
  const float count = executor_.scalar_output(update_, "count");
  result.loss = executor_.scalar_output(update_, "loss") / std::max(1.0f, count);
  result.skipped = !std::isfinite(executor_.scalar_output(update_, "scale"));
  if (train_.noise_scale) {
    const double norm = result.norm * count;
    result.squares = {executor_.scalar_output(update_, "squares") / (loss_scale * loss_scale),
                      executor_.scalar_output(update_, "count_squares"), norm * norm, count};
  }
  // Such a step was skipped: its gradient is not finite either.
  if (!std::isfinite(result.loss)) explain_bad_loss(first_, result.loss, step);
  const bool bad_gradient = result.skipped && count > 0;
  bad_gradients_ = bad_gradient ? bad_gradients_ + 1 : 0;
  if (half_) {
    adapt_loss_scale(bad_gradient, step);
  } else if (bad_gradients_ > train_.max_skipped) {
    throw_error(
        "the gradient is not finite at step {}, though the loss, {}, is; {}. Such steps in a row: {}, of "
        "which "
        "train.max_skipped = {} may be skipped. Weights are as they were. A lower optim.lr or more "
        "schedule.warmup_steps usually help, from a checkpoint before the trouble",
        step + 1, result.loss, first_bad_gradient(), bad_gradients_, train_.max_skipped);
  }
  return result;
}

void Trainer::adapt_loss_scale(bool overflow, int64_t step) {
  const double targets = targets_of(shape_);
  scale_age = overflow ? 0 : scale_age + 1;
  if (overflow) {
    // Nothing would ever change again.
    if (loss_scale <= kSmallestMeanScale / targets) {
      throw_error(
          "the gradient overflows f16 at step {} even with the smallest loss scale, {}; {}. Weights are as "
          "they were. A lower optim.lr or train.precision=bf16 usually help",
          step + 1, loss_scale, first_bad_gradient());
    }
    loss_scale = std::max(kSmallestMeanScale / targets, loss_scale / 2);
  }
  if (scale_age == kGoodSteps) {
    loss_scale = std::min(kLargestMeanScale / targets, loss_scale * 2);
    scale_age = 0;
  }
}

// In the order of the model, from the input on.
std::string Trainer::first_bad_gradient() {
  std::vector<float> values;
  for (const StateSlot& slot : program().states) {
    if (slot.attrs.text("role", "") != "parameter") continue;
    const std::string name = gradient_name(slot.name);
    const StateSlot& gradient = *program().find_state(name);
    values.resize(gradient.type.shape.elements());
    executor_.read_state(name, values.data(), gradient.type.bytes());
    const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    if (bad != values.end())
      return fmt::format("the first gradient that is not finite: {}, with {} at element {}", name, *bad,
                         bad - values.begin());
  }
  return "each gradient is finite, but the norm of all is too large for f32";
}

void Trainer::explain_bad_loss(int segment, double loss, int64_t step) {
  const std::string where = executor_.find_non_finite(segment);
  throw_error(
      "the loss is {} at step {}; {}. Weights are as they were before this step. A lower optim.lr, more "
      "schedule.warmup_steps or train.clip_norm usually help",
      loss, step + 1,
      where.empty() ? "no single op makes it" : "the first op that makes a non-finite number: " + where);
}

void Trainer::evaluate(Batch& batch, Evaluation& total) {
  for (int64_t row = 0; row < shape_.rows; row += rows_at_once_) evaluate_rows(batch, row, total);
}

void Trainer::evaluate_rows(Batch& batch, int64_t first_row, Evaluation& total) {
  load_rows(evaluate_, batch, first_row + rows_.begin);
  executor_.run(evaluate_);
  total.loss = total.loss * total.count + executor_.scalar_output(evaluate_, "loss");
  total.count += executor_.scalar_output(evaluate_, "count");
  total.loss /= std::max(1.0, total.count);

  const Graph& graph = program().segments[evaluate_].graph;
  for (const Output& output : graph.outputs) {
    if (output.name != "logits") continue;
    const Shape& shape = graph.type(output.value).shape;
    logits_.resize(shape.elements());
    executor_.read_output(evaluate_, "logits", logits_.data(), logits_.size() * sizeof(float));
    const bool tokens =
        std::ranges::any_of(batch.tensors, [](const auto& t) { return t.first == "targets"; });
    const std::span<int32_t> targets = batch.at(tokens ? "targets" : "labels").values<int32_t>();
    const int64_t width = shape.back();
    const int64_t first =
        batch.place_of(first_row + rows_.begin, rows_.size) * (shape.elements() / width / rows_.size);
    double correct = 0;
    for (int64_t row = 0; row * width < shape.elements(); ++row) {
      if (targets[first + row] < 0) continue;
      const float* logit = logits_.data() + row * width;
      correct += std::max_element(logit, logit + width) - logit == targets[first + row];
    }
    for (const int axis : batch_axes(ranks_.plan)) {  // the other ranks have the rest
      ranks_.communicator->all_reduce(ranks_.plan.mesh.axes()[axis].name,
                                      reinterpret_cast<std::byte*>(&correct), 1, DType::f64,
                                      Communicator::Reduction::kSum);
    }
    total.correct += correct;
  }
}

int64_t Trainer::parameter_count() const {
  int64_t total = 0;
  for (const StateSlot& slot : program().states) {
    if (slot.attrs.text("role", "") == "parameter") total += slot.part.whole.elements();
  }
  return total;
}

std::vector<NamedTensor> Trainer::tensors(const std::vector<std::string>& roles) {
  std::vector<NamedTensor> result;
  for (const StateSlot& slot : program().states) {
    if (std::ranges::find(roles, slot.attrs.text("role", "")) != roles.end())
      result.push_back({slot.name, view_of(slot), reach_of(executor_, slot.name)});
  }
  return result;
}

}  // namespace trireme

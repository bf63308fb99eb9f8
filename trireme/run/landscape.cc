// See landscape.h.
#include "trireme/run/landscape.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/data/loader.h"
#include "trireme/run/run_setup.h"
#include "trireme/train/loss_surface.h"
#include "trireme/train/rank_states.h"

namespace trireme {
namespace {

// The step of training as it is without chance and without what an update alone needs.
TrainOptions exact_step(const TrainOptions& trained) {
  TrainOptions train;
  train.seed = trained.seed;
  train.threads = trained.threads;
  train.device = trained.device;
  train.freeze = trained.freeze;
  train.init_from = trained.init_from;
  train.init_fresh = trained.init_fresh;
  train.label_smoothing = trained.label_smoothing;
  return train;
}

std::vector<Batch> draw(const std::shared_ptr<const DataSet>& data, int64_t rows, int64_t batches,
                        uint64_t seed) {
  Loader loader(data, {.batch = rows, .seed = seed, .prefetch = 0});
  std::vector<Batch> result;
  for (int64_t i = 0; i < batches; ++i) result.push_back(loader.next());
  return result;
}

double length_of(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

double distance_of(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

Landscape::Losses losses_of(const Evaluation& evaluation, const ModelRecord& model) {
  Landscape::Losses result{evaluation.loss, {}};
  if (has_logits(model) && evaluation.count > 0) result.accuracy = evaluation.correct / evaluation.count;
  return result;
}

void check_models(std::span<const TrainedModel> models) {
  if (models.empty() || models.size() > 2)
    throw_error("{} models were given, one or two expected", models.size());
  const std::string &family = models[0].model.record.family, &other = models.back().model.record.family;
  if (family != other)
    throw_error("{} is a model of the family {} and {} one of {}; there is no line between them",
                models[0].weights, family, models.back().weights, other);
}

}  // namespace

void LandscapeOptions::validate() const {
  curvature.validate();
  if (samples < 1 || rows < 1)
    throw_error("{} samples in batches of {} were asked for, 1 or more expected of both", samples, rows);
  if (points < 2) throw_error("a line of {} points was asked for, 2 or more expected", points);
  if (!(from < to)) throw_error("the line goes from {} to {}; the first is expected to be less", from, to);
}

OpenedData open_landscape_data(const TrainedModel& model, const std::string& default_path) {
  if (model.run.empty() && model.config.is_default("data.path"))
    throw_error("{} has no data of its own; give --data.path", model.weights);
  Config config = model.config.config;
  config.data.augment = false;
  return open_run_data(config, default_path);
}

Landscape landscape_of(std::span<const TrainedModel> models, const OpenedData& data, Device& device,
                       const LandscapeOptions& options) {
  options.validate();
  check_models(models);
  using Samples = LandscapeOptions::Samples;
  if (options.of == Samples::kHeldOut && !data.validation)
    throw_error("the run held out no data; the curvature can be that of the training data");
  const Config& config = models[0].config.config;
  const ModelRecord& record = models[0].model.record;
  const std::shared_ptr<const DataSet>& measured =
      options.of == Samples::kTraining ? data.train : data.validation;
  int64_t most = data.train->size();
  if (data.validation) most = std::min(most, data.validation->size());
  Landscape result;
  result.rows = std::min({options.rows, options.samples, most});
  result.samples = std::min(options.samples, most) / result.rows * result.rows;
  const int64_t batches = result.samples / result.rows;

  Config whole = config;
  whole.model.dropout = 0;
  const Model model(record, complete_model(record, whole, data));
  Trainer trainer(model, exact_step(config.train), {.kind = "sgd"}, {result.rows, data.input}, device);
  trainer.initialise(static_cast<uint64_t>(config.train.seed));
  std::vector<Batch> training = draw(data.train, result.rows, batches, options.seed), held_out;
  if (data.validation) held_out = draw(data.validation, result.rows, batches, options.seed);
  LossSurface surface(trainer, measured == data.train ? training : held_out);

  std::vector<ModelStates> states;
  std::vector<float> first;
  for (size_t i = 0; i < models.size(); ++i) {
    read_trained_weights(models[i], model, states_of(trainer).model);
    states.push_back(surface.states());
    const std::vector<float> weights = surface.weights();
    if (i == 0) first = weights;
    result.parameters = std::ssize(weights);
    Landscape::Solution& solution = result.solutions.emplace_back();
    solution.weights = models[i].weights;
    solution.distance = distance_of(first, weights);
    solution.training = losses_of(surface.evaluate(training), record);
    if (data.validation) solution.held_out = losses_of(surface.evaluate(held_out), record);
    const LossSurface::Slope slope = surface.slope(weights);
    solution.loss = slope.loss;
    solution.gradient_norm = length_of(slope.gradient);
    CurvatureOptions search = options.curvature;
    search.seed = options.seed;
    if (options.on_iteration)
      search.on_iteration = [&](int iteration, double value) { options.on_iteration(i, iteration, value); };
    solution.curvature = largest_curvature(
        [&](std::span<const float> at) { return surface.slope(at).gradient; }, weights, search);
  }
  if (models.size() < 2) return result;

  LossSurface on_training(trainer, training);  // running statistics are those of training data
  for (int i = 0; i < options.points; ++i) {
    Landscape::Point& point = result.line.emplace_back();
    point.a = options.from + (options.to - options.from) * i / (options.points - 1);
    on_training.set_between(states[0], states[1], point.a);
    point.training = losses_of(on_training.evaluate(training), record);
    if (data.validation) point.held_out = losses_of(on_training.evaluate(held_out), record);
    if (options.on_point) options.on_point(i + 1);
  }
  return result;
}

}  // namespace trireme

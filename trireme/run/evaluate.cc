// See evaluate.h. The program is that of a training step, so that every plan that trains a model evaluates it
// too, with the numbers that the run itself sees.
#include "trireme/run/evaluate.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/data/loader.h"
#include "trireme/run/run_folder.h"
#include "trireme/run/run_setup.h"
#include "trireme/train/rank_states.h"

namespace trireme {
namespace {

// Without what only an update needs.
TrainOptions without_updates(TrainOptions train) {
  train.clip_norm = 0;
  train.noise_scale = false;
  train.ema = 0;
  return train;
}

double probability_of(std::span<const float> logits, int64_t index) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[index]);
  return 1 / sum;
}

void check_predictions(const ModelRecord& model, const RankOptions& ranks, InputKind expected) {
  if (model.input != expected)
    throw_error(
        "predictions are of image classifiers and of models that turn one text into another, and "
        "model.family = {} is none",
        model.family);
  if (ranks.plan.mesh.ranks() > 1)
    throw_error("predictions come from one rank, and there are {}; leave out -n and the plan",
                ranks.plan.mesh.ranks());
}

}  // namespace

OpenedData open_evaluation_data(const TrainedModel& model, const std::string& default_path) {
  const ResolvedConfig& resolved = model.config;
  Config config = resolved.config;
  config.data.augment = false;
  const bool given = !resolved.is_default("data.path"), tokens = reads_text(model.model.record);
  if (!given && model.run.empty()) throw_error("{} has no data of its own; give --data.path", model.weights);
  if (tokens && config.data.kind != "tokens") require_tokenizer(model);
  DataOptions options = data_options(config, default_path);
  if (given && resolved.is_default("data.validation_fraction")) options.use = DataOptions::Use::kEvaluation;
  if (given && !tokens) {
    const DataDescription trained = read_data_description(model.run);
    options.classes = trained.classes;
    if (options.mean.empty()) {
      options.mean = trained.mean;
      options.deviation = trained.deviation;
    }
    if (options.mean.empty())
      throw_error(
          "{} does not say by what its training images were normalised; give --data.mean and "
          "--data.deviation",
          model.run);
  }
  OpenedData data = open_data(options);
  if (!data.validation)
    throw_error("the run held out no data (data.validation_fraction = {}); give other data with --data.path",
                config.data.validation_fraction);
  return data;
}

EvaluationReport evaluate_model(const TrainedModel& trained, const OpenedData& data, Device& device,
                                RankOptions ranks, const EvaluateOptions& options) {
  const ModelRecord& record = trained.model.record;
  const Config& config = trained.config.config;
  if (options.on_prediction) check_predictions(record, ranks, InputKind::kImages);
  if (options.on_translation) check_predictions(record, ranks, InputKind::kPairs);
  ranks.plan.agreement = {};
  const Model model(record, complete_model(record, config, data));
  const int64_t rows = config.train.batch / config.train.accumulate;
  Trainer trainer(model, without_updates(config.train), {.kind = "sgd"}, {rows, data.input}, device, ranks);
  trainer.initialise(static_cast<uint64_t>(config.train.seed));
  read_trained_weights(trained, model, states_of(trainer).model, checkpoint_peers(ranks));
  trainer.begin_from_weights();

  LoaderOptions loading = evaluation(rows);
  loading.parts = trainer.own_evaluation_rows();
  Loader loader(data.validation, loading);
  Evaluation total;
  EvaluationReport report;
  for (int64_t batches = 0; options.batches == 0 || batches < options.batches; ++batches) {
    Batch& batch = loader.next();
    const int64_t first = batch.position.index;
    const std::span<const int32_t> labels =
        options.on_prediction ? batch.at("labels").values<int32_t>() : std::span<int32_t>();
    const auto predict = [&](int64_t row, std::span<const float> logits) {
      const int64_t predicted = std::ranges::max_element(logits) - logits.begin();
      options.on_prediction(
          {data.validation->origin(first + row), labels[row], predicted, probability_of(logits, predicted)});
    };
    trainer.evaluate(batch, total, options.on_prediction ? Trainer::OnRow(predict) : nullptr);
    report.samples += std::min(rows, data.validation->size() - first);
    if (batch.ends_epoch) break;
  }
  report.loss = total.loss;
  report.targets = static_cast<int64_t>(total.count);
  if (reads_text(record) && record.targets == Targets::kNext) report.perplexity = std::exp(total.loss);
  if (has_logits(record) && total.count > 0) report.accuracy = total.correct / total.count;
  if (options.on_translation) {
    int64_t exact = 0;
    translate_held_out(trained, data, device, report.samples, [&](const Translation& one) {
      exact += one.exact();
      options.on_translation(one);
    });
    report.exact = static_cast<double>(exact) / static_cast<double>(report.samples);
  }
  return report;
}

}  // namespace trireme

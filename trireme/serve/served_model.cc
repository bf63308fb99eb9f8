// See served_model.h.
#include "trireme/serve/served_model.h"

#include <algorithm>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/run/run_folder.h"

namespace trireme::serve {
namespace {

ImageForm form_of(const TrainedModel& trained, const DataDescription& data, const Shape& given) {
  const Config& config = trained.config.config;
  ImageForm form{
      .shape = given.rank() > 0 ? given : data.input, .mean = data.mean, .deviation = data.deviation};
  if (!config.data.mean.empty()) {
    form.mean.assign(config.data.mean.begin(), config.data.mean.end());
    form.deviation.assign(config.data.deviation.begin(), config.data.deviation.end());
  }
  if (form.shape.rank() == 0)
    throw_error("{} does not say what form its images had; give it with --image, like 3x32x32", trained.run);
  if (form.mean.empty() || form.deviation.empty())
    throw_error(
        "{} does not say by what its training images were normalised; give --data.mean and --data.deviation",
        trained.run);
  check_form(form);
  return form;
}

}  // namespace

ServedModel::ServedModel(const TrainedModel& trained, const ServeOptions& options) {
  options.limits.validate();
  const ModelRecord& record = trained.model.record;
  if (record.targets == Targets::kMasked)
    throw_error(
        "model.family = {} finds tokens that are hidden; it neither writes text nor classifies images",
        record.family);
  if (record.input == InputKind::kPairs)
    throw_error("model.family = {} turns one text into another, which is not served; trireme sample does it",
                record.family);
  const TrainOptions& train = trained.config.config.train;
  const int threads = options.threads > 0
                          ? options.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  device_ = make_device({.kind = options.device.empty() ? train.device : options.device, .threads = threads});
  if (record.input == InputKind::kTokens)
    open_text(trained, options.limits);
  else
    open_images(trained, options);
}

void ServedModel::open_text(const TrainedModel& trained, const Limits& limits) {
  require_tokenizer(trained);
  const Config& config = trained.config.config;
  tokenizer_ = open_tokenizer(config.data.tokenizer, config.data.tokenizer_path);
  generator_ = std::make_unique<Generator>(trained.model, *device_, limits.batch);
  read_trained_weights(trained, trained.model, generator_->weights());
  bytes_ = generator_->program().peak_bytes();
  summary_ = fmt::format("{}, up to {} texts of {} tokens at a time", trained.model.record.family,
                         limits.batch, trained.model.options.seq);
  text_ = std::make_unique<TextEngine>(*generator_, limits);
}

void ServedModel::open_images(const TrainedModel& trained, const ServeOptions& options) {
  const DataDescription data = read_data_description(trained.run);
  form_ = form_of(trained, data, options.image);
  classes_ = data.classes;
  Model model = trained.model;
  if (model.options.classes == 0) model.options.classes = std::ssize(classes_);
  images_ = std::make_unique<ImageEngine>(model, form_.shape, *device_, options.limits);
  read_trained_weights(trained, model, images_->weights());
  bytes_ = images_->bytes();
  summary_ = fmt::format("{}, {} classes, up to {} images {} at a time", trained.model.record.family,
                         model.options.classes, options.limits.batch, to_string(form_.shape));
  images_->start();
}

std::optional<ServedText> ServedModel::text() {
  if (!text_) return {};
  return ServedText{*text_, *tokenizer_};
}

std::optional<ServedImages> ServedModel::images() {
  if (!images_) return {};
  return ServedImages{*images_, form_, classes_};
}

}  // namespace trireme::serve

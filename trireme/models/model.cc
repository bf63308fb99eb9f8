// The table of families, and what records of all kinds share; see model.h.
#include "trireme/models/model.h"

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

constexpr const ModelRecord& (*kModels[])() = {
    gpt_model, llama_model,  bert_model,        lstm_model, mlp_model,     lenet_model,       alexnet_model,
    vgg_model, resnet_model, wide_resnet_model, swin_model, seq2seq_model, lstm_seq2seq_model};

}  // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> names = model_families();
  names.emplace_back(kOnnxFamily);
  return names;
}

std::vector<std::string> model_families() {
  std::vector<std::string> names;
  for (const auto model : kModels) names.push_back(model().family);
  return names;
}

ModelRecord find_model(const ModelOptions& settings) {
  return settings.family == kOnnxFamily ? onnx_model(settings.path) : find_model(settings.family);
}

const ModelRecord& find_model(std::string_view family) {
  for (const auto model : kModels) {
    if (model().family == family) return model();
  }
  if (family == kOnnxFamily)
    throw_error(
        "the model is an ONNX file, and which one is not known here; give its settings with model.path");
  const std::string guess = nearest(family, family_names());
  throw_error("there is no model family '{}'{}; there are {}", family,
              guess.empty() ? "" : fmt::format(" (did you mean '{}'?)", guess), join(family_names(), ", "));
}

Model::Model(const ModelOptions& settings) : record(find_model(settings)), options(settings) {}

Model::Model(ModelRecord own, ModelOptions settings) : record(std::move(own)), options(std::move(settings)) {
  options.family = record.family;
}

std::vector<SampleTensor> batch_tensors(const ModelRecord& record, const Shape& sample) {
  switch (record.input) {
    case InputKind::kTokens:
      return {{"ids", DType::i32, sample}, {"targets", DType::i32, sample}};
    case InputKind::kPairs:
      if (sample.rank() != 2) return {};
      return {{"source", DType::i32, {sample[0]}},
              {"source_length", DType::i32, {}},
              {"ids", DType::i32, {sample[1]}},
              {"targets", DType::i32, {sample[1]}}};
    case InputKind::kImages:
      return {{"images", DType::f32, sample}, {"labels", DType::i32, {}}};
    case InputKind::kOwn:
      break;
  }
  return record.inputs;
}

int64_t head_size(const ModelOptions& options) {
  if (options.heads < 1 || options.hidden % options.heads != 0) {
    throw_error("model.hidden = {} cannot be shared evenly by model.heads = {}", options.hidden,
                options.heads);
  }
  return options.hidden / options.heads;
}

}  // namespace trireme

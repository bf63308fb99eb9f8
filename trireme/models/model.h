// What a model is to the rest of training: a record that says all that is asked of it. The families that
// come with Trireme are such records, and one of your own is handed to the trainer the same way:
//
//   ModelRecord mine{.family = "mine", .inputs = {{"x", DType::f32, {2}}, {"class", DType::i32, {}}}};
//   mine.logits = [](Network& net, const ModelOptions&, ValueId x) { return …; };
//   Trainer trainer(mine, train, optim, {.rows = 32}, *device);
//
// Gradients, precision, plans and updates are added by train/step.h for all of them alike.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/data/data_set.h"
#include "trireme/models/network.h"
#include "trireme/models/options.h"

namespace trireme {

// What a batch holds. kTokens: `ids` and `targets`, i32 [batch, seq]. kPairs: `source`, i32 [batch,
// source_seq], of which each row has `source_length` tokens, i32 [batch]; `ids`, which are what a decoder has
// before it, and `targets`, i32 [batch, seq] (data/pair_samples.h). kImages: `images`, f32 [batch, channels,
// height, width], and `labels`, i32 [batch]. kOwn: what the record says.
enum class InputKind { kTokens, kPairs, kImages, kOwn };

// What is expected of tokens: at each place the one that follows, or those that were hidden
// (data/masked_tokens.h). Only the first writes text.
enum class Targets { kNext, kMasked };

// Whether it can go on from states that it left, token by token (Mode::kDecode).
enum class Decodes { kNo, kYes };

struct ModelRecord {
  std::string family;  // its name, for people and in files
  InputKind input = InputKind::kOwn;
  Targets targets = Targets::kNext;  // kTokens only
  // kOwn: the tensors of a batch, one sample of each, under the names that the data gives them.
  std::vector<SampleTensor> inputs = {};

  // How it computes: one of the three. With logits, a batch has two tensors: the input, of which the logits
  // are made ([…, classes]), and targets, i32 […] with kIgnoreTarget where nothing is expected; the loss is
  // the cross entropy. logits_of_all is the same for a batch with more tensors, of which the last is the
  // targets: it sees all others in their order. A loss of its own sees all of them.
  std::function<ValueId(Network& net, const ModelOptions& options, ValueId input)> logits = nullptr;
  std::function<ValueId(Network& net, const ModelOptions& options, std::span<const ValueId> inputs)>
      logits_of_all = nullptr;
  std::function<Loss(Network& net, const ModelOptions& options, std::span<const ValueId> inputs)> loss =
      nullptr;

  Decodes decodes = Decodes::kNo;
  // The table whose rows are the vocabulary; "" where there is none.
  std::string embedding = {};
  // The settings, beside vocab and classes, that decide which weights there are and what they mean.
  std::vector<std::string> weight_settings = {};

  // What is wrong between its settings, one sentence each with a way out.
  std::function<std::vector<std::string>(const ModelOptions&)> problems = [](const ModelOptions&) {
    return std::vector<std::string>();
  };
  // Defaults of its own, by the names and values of settings: {"model.layers", "20"}. They hold where nobody
  // has set anything else; other settings have the defaults of options.h.
  std::vector<std::pair<std::string, std::string>> defaults = {};
  // The settings with those filled in that follow from others.
  std::function<ModelOptions(ModelOptions)> with_automatic_sizes = [](ModelOptions options) {
    return options;
  };
  // The sample that it is looked at and timed with where there is no data: [seq], [source_seq, seq], or the
  // image that it was made for.
  std::function<Shape(const ModelOptions&)> usual_sample = [](const ModelOptions&) { return Shape{}; };
};

inline bool has_logits(const ModelRecord& record) {
  return record.logits || record.logits_of_all;
}
// Whether its samples are text: it has a vocabulary.
inline bool reads_text(const ModelRecord& record) {
  return record.input == InputKind::kTokens || record.input == InputKind::kPairs;
}
// Of a sample that is text, [seq] or [source_seq, seq].
inline int64_t tokens_of(const Shape& sample) {
  return sample.rank() == 2 ? sample[0] + sample[1] : sample.elements();
}

// A record, and the settings that it is used with.
struct Model {
  // Of a family in the table, the one that the settings name. Throws as find_model() does.
  Model(const ModelOptions& settings);
  Model(ModelRecord own, ModelOptions settings = {});

  ModelRecord record;
  ModelOptions options;
};

// The tensors of a batch; `sample` is [seq], [source_seq, seq] or [channels, height, width], and of no use
// for kOwn.
std::vector<SampleTensor> batch_tensors(const ModelRecord& record, const Shape& sample);

// The table of families. Throws an Error with the nearest name when there is no such family.
const ModelRecord& find_model(std::string_view family);
std::vector<std::string> model_families();
// The same for settings, whose model may also be a file. Throws as onnx_model() does.
ModelRecord find_model(const ModelOptions& settings);
std::vector<std::string> family_names();  // with those whose models are files

inline constexpr std::string_view kOnnxFamily = "onnx";
// What an ONNX file computes, as a model: a classifier of images or a language model, as its inputs are.
// Throws an Error when the file can not be read or is neither. An empty path is left to ModelRecord::problems.
ModelRecord onnx_model(const std::string& path);

// hidden / heads of a transformer; an Error when heads do not divide it.
int64_t head_size(const ModelOptions& options);

// The records in the table, each beside its code.
const ModelRecord& gpt_model();
const ModelRecord& llama_model();
const ModelRecord& bert_model();
const ModelRecord& lstm_model();
const ModelRecord& mlp_model();
const ModelRecord& lenet_model();
const ModelRecord& resnet_model();
const ModelRecord& wide_resnet_model();
const ModelRecord& alexnet_model();
const ModelRecord& vgg_model();
const ModelRecord& swin_model();
const ModelRecord& seq2seq_model();
const ModelRecord& lstm_seq2seq_model();

}  // namespace trireme

// The table of models. A model is a function from a batch to logits, written with Network; loss, gradients
// and updates are added by train/step.h for all of them alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/train/models/network.h"
#include "trireme/train/options.h"

namespace trireme {

enum class InputKind { kTokens, kImages };

// Whether it can go on from states that it left, token by token (Mode::kDecode).
enum class Decodes { kNo, kYes };

struct ModelRecord {
  std::string_view family;
  InputKind input;
  Decodes decodes;
  // The table whose rows are the vocabulary; "" for images.
  std::string_view embedding;
  // The settings, beside vocab and classes, that decide which weights there are and what they mean.
  std::string_view weight_settings;
  // Tokens: i32 [batch, seq] -> logits [batch, seq, vocab]. Images: f32 [batch, c, y, x] -> [batch, classes].
  ValueId (*logits)(Network& net, const ModelOptions& options, ValueId input);
};

// Throws an Error with the nearest name when there is no such family.
const ModelRecord& find_model(std::string_view family);
std::vector<std::string> model_families();

// The names in weight_settings.
std::vector<std::string> weight_settings(const ModelRecord& model);

// hidden / heads of a transformer; an Error when heads do not divide it.
int64_t head_size(const ModelOptions& options);

ValueId gpt_logits(Network& net, const ModelOptions& options, ValueId ids);
ValueId llama_logits(Network& net, const ModelOptions& options, ValueId ids);
ValueId lstm_logits(Network& net, const ModelOptions& options, ValueId ids);
ValueId mlp_logits(Network& net, const ModelOptions& options, ValueId images);
ValueId lenet_logits(Network& net, const ModelOptions& options, ValueId images);
ValueId resnet_logits(Network& net, const ModelOptions& options, ValueId images);

}  // namespace trireme

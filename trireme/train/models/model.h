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

struct ModelRecord {
  std::string_view family;
  InputKind input;
  // Tokens: i32 [batch, seq] -> logits [batch, seq, vocab]. Images: f32 [batch, c, y, x] -> [batch, classes].
  ValueId (*logits)(Network& net, const ModelOptions& options, ValueId input);
};

// Throws an Error with the nearest name when there is no such family.
const ModelRecord& find_model(std::string_view family);
std::vector<std::string> model_families();

// hidden / heads of a transformer; an Error when heads do not divide it.
int64_t head_size(const ModelOptions& options);

ValueId gpt_logits(Network& net, const ModelOptions& options, ValueId ids);
ValueId llama_logits(Network& net, const ModelOptions& options, ValueId ids);
ValueId lstm_logits(Network& net, const ModelOptions& options, ValueId ids);
ValueId mlp_logits(Network& net, const ModelOptions& options, ValueId images);
ValueId lenet_logits(Network& net, const ModelOptions& options, ValueId images);
ValueId resnet_logits(Network& net, const ModelOptions& options, ValueId images);

}  // namespace trireme

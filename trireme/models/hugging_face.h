// Models as Hugging Face's folders have them: config.json, and the names of tensors. Ours have their shapes
// and conventions ([in, out] weights of GPT-2, rotary pairs (i, i + d/2) of Llama), so that names are all
// that differs. To add a model type: a reader and a writer of its config, its names, and a row in
// hugging_face.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/models/options.h"

namespace trireme {

// What a file says of a model.
struct StatedModel {
  ModelOptions model;  // family, and what `keys` names
  struct Key {
    std::string setting;  // "model.layers"
    std::string key;      // "n_layer"
  };
  std::vector<Key> keys;  // of settings that must be the same for the weights to mean the same
  int64_t positions = 0;  // the most that model.seq may be
};

// Throws an Error that names the key where the config asks for what our models do not compute (another model
// type, activation, scaling of positions, …). Keys that are not there have Hugging Face's defaults. `where`
// opens every message.
StatedModel parse_hugging_face_config(std::string_view json, std::string_view where);

// config.json of a model, as transformers reads it. Throws an Error for families that it does not have.
std::string hugging_face_config(const ModelOptions& model);

// Our name for a tensor of theirs: nothing for those that hold no weights of ours (masks, tables of angles, a
// head that is tied). Unknown names stay as they are.
std::optional<std::string> name_from_hugging_face(const ModelOptions& model, std::string_view name);
std::string name_for_hugging_face(const ModelOptions& model, std::string_view name);

}  // namespace trireme

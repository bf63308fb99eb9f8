// A trained model as a folder that Hugging Face's transformers reads: config.json and model.safetensors.
#pragma once

#include <string>

#include "trireme/checkpoint/tensor_files.h"
#include "trireme/models/options.h"

namespace trireme {

// Writes the weights, in whatever parts they lie in their files, as they are, to a new folder; adapters
// (model.lora) are merged into the weights that they stand beside. Throws an
// Error, and leaves nothing behind, when the folder exists and is not empty, when the model has no form at
// Hugging Face, when the tensors are not those of the model, and when writing fails.
void export_hugging_face(const ModelOptions& model, const TensorFiles& weights, const std::string& folder);

}  // namespace trireme

// A trained model for other tools: a folder that Hugging Face's transformers reads (config.json and
// model.safetensors), or an ONNX file.
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

// Writes an onnx model with these weights to a new file: the one of model.path, for inference. Throws an
// Error, and leaves nothing behind, when the file exists, when the model is of another family, when weights
// are missing, and when writing fails.
void export_onnx(const ModelOptions& model, const TensorFiles& weights, const std::string& path);

}  // namespace trireme

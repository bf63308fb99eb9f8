// One tensor is in memory at a time. The folder gets its name when all is written.
#include "trireme/train/export.h"

#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/train/checkpoint/file_io.h"
#include "trireme/train/checkpoint/safetensors.h"
#include "trireme/train/models/hugging_face.h"
#include "trireme/train/step.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// What the model consists of must be in the files, and nothing else, or transformers would start the rest
// from random numbers.
void expect_tensors_of(const ModelOptions& model, const TensorFiles& weights) {
  size_t states = 0;
  for (const Value& value : forward_graph(model, {1, Shape{model.seq}}, DType::f32).values) {
    if (value.kind != Value::Kind::kState) continue;
    ++states;
    const TensorFiles::Tensor* found = weights.find(value.name);
    if (!found || found->shape != value.type.shape || found->dtype != value.type.dtype) {
      throw_error("{}: '{}' is {}, expected {}; is config.toml that of this checkpoint?", weights.path(),
                  value.name, found ? found->format + " " + to_string(found->shape) : "missing",
                  to_string(value.type));
    }
  }
  if (states != weights.tensors().size()) {
    throw_error("{}: {} tensors, but the model of config.toml has {}", weights.path(),
                weights.tensors().size(), states);
  }
}

void write_weights(const ModelOptions& model, const TensorFiles& weights, const std::string& path) {
  std::vector<NamedTensor> tensors;
  std::map<std::string, const TensorFiles::Tensor*> sources;
  for (const TensorFiles::Tensor& tensor : weights.tensors()) {
    const std::string name = name_for_hugging_face(model, tensor.name);
    tensors.push_back({name, {nullptr, *tensor.dtype, tensor.shape}});
    sources[name] = &tensor;
  }
  std::vector<std::byte> memory;
  // transformers refuses files without the format.
  write_safetensors(path, tensors, {{"format", "pt"}}, [&](const NamedTensor& tensor) -> const void* {
    memory.resize(tensor.view.bytes());
    const TensorFiles::Tensor& source = *sources.at(tensor.name);
    weights.read(source,
                 {source.name, {memory.data(), tensor.view.dtype, source.shape}, all_of(source.shape)});
    return memory.data();
  });
}

void write_text(const std::string& path, const std::string& text) {
  FileWriter file(path);
  file.write(text.data(), text.size());
  file.finish();
}

}  // namespace

void export_hugging_face(const ModelOptions& model, const TensorFiles& weights, const std::string& folder) {
  const std::string config = hugging_face_config(model);
  expect_tensors_of(model, weights);
  fs::path to = fs::absolute(folder).lexically_normal();
  if (!to.has_filename()) to = to.parent_path();
  const fs::path incoming = to.parent_path() / (".incoming-" + to.filename().string());
  try {
    if (fs::exists(to) && (!fs::is_directory(to) || !fs::is_empty(to)))
      throw_error("{} exists and is not an empty folder; give another one", folder);
    fs::create_directories(to.parent_path());
    fs::remove_all(incoming);  // left by an export that was killed
    fs::create_directory(incoming);
    write_weights(model, weights, incoming / "model.safetensors");
    write_text(incoming / "config.json", config);
    fs::rename(incoming, to);
    sync_directory(to.parent_path());
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(incoming, ignored);
    throw_error("nothing was exported: {}", error.what());
  }
}

}  // namespace trireme

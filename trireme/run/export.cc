// One tensor is in memory at a time. The folder gets its name when all is written.
#include "trireme/run/export.h"

#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/checkpoint/file_io.h"
#include "trireme/checkpoint/safetensors.h"
#include "trireme/models/hugging_face.h"
#include "trireme/models/model.h"
#include "trireme/onnx/open_model.h"
#include "trireme/onnx/write.h"
#include "trireme/train/lora.h"
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
    const bool fits =
        found && (found->dtype == value.type.dtype || found->of_base) && TensorFiles::widens(*found);
    if (!fits || found->shape != value.type.shape) {
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

std::vector<float> whole(const TensorFiles& weights, const TensorFiles::Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
  weights.read(tensor, {tensor.name, {values.data(), DType::f32, tensor.shape}, all_of(tensor.shape)});
  return values;
}

// Adapters go into the weights that they stand beside.
void write_weights(const ModelOptions& model, const TensorFiles& weights, const std::string& path) {
  std::vector<NamedTensor> tensors;
  std::map<std::string, const TensorFiles::Tensor*> sources;
  for (const TensorFiles::Tensor& tensor : weights.tensors()) {
    if (is_adapter_name(tensor.name)) continue;
    const std::string name = name_for_hugging_face(model, tensor.name);
    tensors.push_back({name, {nullptr, DType::f32, tensor.shape}});
    sources[name] = &tensor;
  }
  std::map<std::string, AdaptedWeight> adapted;
  if (model.lora.rank > 0) {
    for (AdaptedWeight& one : adapted_weights(model, {model.seq})) adapted[one.weight] = std::move(one);
  }
  std::vector<float> memory;
  // transformers refuses files without the format.
  write_safetensors(path, tensors, {{"format", "pt"}}, [&](const NamedTensor& tensor) -> const void* {
    const TensorFiles::Tensor& source = *sources.at(tensor.name);
    memory = whole(weights, source);
    if (const auto found = adapted.find(source.name); found != adapted.end()) {
      const auto& [name, a, b, store] = found->second;
      merge_adapter(memory, whole(weights, *weights.find(a)), whole(weights, *weights.find(b)),
                    model.lora.rank, lora_scale(model.lora), store);
    }
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

void export_onnx(const ModelOptions& model, const TensorFiles& weights, const std::string& path) {
  if (model.family != kOnnxFamily)
    throw_error(
        "model.family = {} can not be written as ONNX; models that came from an ONNX file can. gpt and llama "
        "become a Hugging Face folder (--to FOLDER)",
        model.family);
  if (fs::exists(path)) throw_error("{} exists; give another name", path);
  const std::shared_ptr<onnx::OpenModel> original = onnx::open_model(model.path);
  size_t written = 0;
  const std::string bytes = onnx::with_values(
      original->file(),
      [&](const onnx::StoredTensor& tensor) -> std::optional<std::vector<float>> {
        const TensorFiles::Tensor* found = weights.find(onnx::state_name(tensor.name));
        if (!found) return std::nullopt;
        if (found->shape != tensor.shape)
          throw_error("{}: '{}' is {}, but {} in {}; was the file changed since the run?", weights.path(),
                      found->name, to_string(found->shape), to_string(tensor.shape), model.path);
        ++written;
        return whole(weights, *found);
      },
      {{"trireme.checkpoint", weights.path()}});
  if (written == 0)
    throw_error("{}: none of its tensors is in {}; was the file changed since the run?", weights.path(),
                model.path);
  fs::path incoming = path + ".incoming";
  try {
    write_text(incoming, bytes);
    fs::rename(incoming, path);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove(incoming, ignored);
    throw_error("nothing was exported: {}", error.what());
  }
}

}  // namespace trireme

// An ONNX file as a model. Its first input says what it learns from: tokens (integers, [batch, seq]) or
// images (real numbers, [batch, channels, height, width], or flat). Float initializers are parameters under
// their names in the file, and start with its values; the first output, or `logits`, is what the loss is
// taken of.
#include <algorithm>
#include <numeric>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/ir/trained.h"
#include "trireme/models/model.h"
#include "trireme/onnx/import.h"
#include "trireme/onnx/open_model.h"

namespace trireme {
namespace onnx_family {
namespace {

using onnx::ValueEntry;

bool is_integer(onnx::Type type) {
  return type == onnx::Type::kI64 || type == onnx::Type::kI32;
}

const ValueEntry& data_input(const onnx::File& file) {
  if (file.inputs.empty())
    throw_error("{}: the graph has no input; a batch of images or tokens expected", file.path);
  const auto ids = std::ranges::find(file.inputs, "input_ids", &ValueEntry::name);
  return ids == file.inputs.end() ? file.inputs[0] : *ids;
}

InputKind input_kind(const onnx::File& file) {
  const ValueEntry& input = data_input(file);
  const size_t rank = input.dims ? input.dims->size() : 0;
  if (is_integer(input.type) && rank == 2) return InputKind::kTokens;
  if (input.type == onnx::Type::kF32 && (rank == 4 || rank == 2)) return InputKind::kImages;
  throw_error(
      "{}: its input '{}' is {} of {} dims; expected are tokens (int64 [batch, seq]) or images (float32 [batch, "
      "channels, height, width], or [batch, features])",
      file.path, input.name, type_name(input.type), rank);
}

// Inputs beside the tokens that exporters of language models leave: everything is seen, of one type, and in
// order.
onnx::Value beside_tokens(const onnx::File& file, const ValueEntry& input, const Shape& ids) {
  onnx::Tensor values = onnx::zeros(input.type, ids);
  if (input.name == "attention_mask") {
    for (int64_t i = 0; i < values.elements(); ++i) onnx::store(values, i, int64_t{1});
  } else if (input.name == "position_ids") {
    for (int64_t i = 0; i < values.elements(); ++i) onnx::store(values, i, i % ids[1]);
  } else if (input.name != "token_type_ids") {
    throw_error(
        "{}: nothing is known to give to its input '{}'; training gives one tensor of data, and values for "
        "attention_mask, position_ids and token_type_ids. Export the model without the others",
        file.path, input.name);
  }
  return onnx::Emitter::known(std::move(values));
}

// The output that the loss is taken of: the input of a softmax that ends the graph, because the loss has one.
std::string logits_name(const onnx::File& file) {
  if (file.outputs.empty()) throw_error("{}: the graph has no output; logits expected", file.path);
  const auto named = std::ranges::find(file.outputs, "logits", &ValueEntry::name);
  const std::string& name = named == file.outputs.end() ? file.outputs[0].name : named->name;
  for (const onnx::NodeEntry& node : file.nodes) {
    if (node.op == "Softmax" && !node.outputs.empty() && node.outputs[0] == name && !node.inputs.empty())
      return node.inputs[0];
  }
  return name;
}

onnx::Surroundings surroundings(Network& net, onnx::OpenModel& model) {
  const auto in_file = [&model](const std::string& tensor) {
    return Attrs{{"init", std::string(onnx::kInFile)}, {"file", model.file().path}, {"tensor", tensor}};
  };
  const auto named = [&net, &model, in_file](const onnx::StoredTensor& tensor, auto make) {
    const std::string name = onnx::state_name(tensor.name);
    if (const ValueId known = net.builder().find(name);
        known != kNoValue && net.builder().graph().values[known].attrs.text("tensor", "") != tensor.name)
      throw_error("{}: '{}' and another tensor would both be called '{}'; give them other names",
                  model.file().path, tensor.name, name);
    return make(name, tensor.shape, Init::zeros(), in_file(tensor.name));
  };
  const auto buffer = [&net, named](const onnx::StoredTensor& tensor) {
    return named(tensor, [&net](auto&&... of) { return net.buffer(of...); });
  };
  return {.parameter =
              [&net, named](const onnx::StoredTensor& tensor) {
                return named(tensor, [&net](auto&&... of) { return net.parameter(of...); });
              },
          .constant =
              [&net, &model, in_file](const std::string& name, const onnx::Tensor& constant) {
                model.keep(name, constant);
                Attrs attrs = in_file(name);
                attrs.set(kFrozen, int64_t{1});
                return net.parameter(name, constant.shape, Init::zeros(), std::move(attrs));
              },
          .batch_norm =
              [&net, buffer](const onnx::Surroundings::BatchNorm& norm) {
                return net.batch_norm(norm.x, norm.gain, norm.bias, buffer(*norm.mean),
                                      buffer(*norm.variance), norm.eps, norm.momentum);
              },
          .dropout = [&net](ValueId x, double rate) { return net.dropout(x, rate); }};
}

ValueId logits(Network& net, onnx::OpenModel& model, const ModelOptions& options, ValueId given) {
  const onnx::File& file = model.file();
  const onnx::Surroundings around = surroundings(net, model);
  onnx::Emitter emitter(net.builder(), around);
  const ValueEntry& data = data_input(file);
  const bool tokens = input_kind(file) == InputKind::kTokens;
  const ValueId input = !tokens && data.dims->size() == 2 ? net.flatten(given) : given;
  std::map<std::string, onnx::Value> inputs;
  for (const ValueEntry& entry : file.inputs) {
    inputs.emplace(entry.name, entry.name == data.name
                                   ? emitter.computed(input, tokens ? data.type : onnx::Type::kF32)
                                   : beside_tokens(file, entry, net.shape(given)));
  }
  const std::string name = logits_name(file);
  onnx::Value y = onnx::import_graph(file, emitter, inputs, {name}).at(name);
  const Shape& rows = net.shape(given);
  Shape expected{rows[0]};
  if (tokens) expected.push_back(rows[1]);
  while (y.shape.rank() > expected.rank() + 1 && y.shape.back() == 1)  // [batch, classes, 1, 1]
    y = emitter.reshape(y, y.shape.slice(0, y.shape.rank() - 1));
  if (y.shape.rank() != expected.rank() + 1 || y.shape.slice(0, expected.rank()) != expected)
    throw_error("{}: its output '{}' is {}; logits of {} {} are {}", file.path, name, to_string(y.shape),
                to_string(expected), tokens ? "tokens" : "images",
                tokens ? "[batch, seq, vocabulary]" : "[batch, classes]");
  const int64_t classes = tokens ? options.vocab : options.classes;
  if (y.shape.back() < classes)
    throw_error("{}: its output '{}' has {} classes, but {} = {}", file.path, name, y.shape.back(),
                tokens ? "model.vocab" : "model.classes", classes);
  return emitter.id(y);
}

// Of dims that the file states; what it leaves open is the setting's.
Shape usual_sample(const onnx::File& file, const ModelOptions& options) {
  const ValueEntry& input = data_input(file);
  if (input_kind(file) == InputKind::kTokens) return {options.seq};
  if (input.dims->size() == 2) return {1, 1, (*input.dims)[1].value_or(1)};
  Shape sample;
  for (int d = 1; d < 4; ++d) sample.push_back((*input.dims)[d].value_or(d == 1 ? 3 : 224));
  return sample;
}

}  // namespace
}  // namespace onnx_family

ModelRecord onnx_model(const std::string& path) {
  using namespace onnx_family;
  ModelRecord record{.family = std::string(kOnnxFamily), .input = InputKind::kImages};
  if (path.empty()) {
    record.problems = [](const ModelOptions&) {
      return std::vector<std::string>{"model.family = onnx needs model.path, the ONNX file to train"};
    };
    return record;
  }
  const std::shared_ptr<onnx::OpenModel> model = onnx::open_model(path);
  record.input = input_kind(model->file());
  record.logits = [model](Network& net, const ModelOptions& options, ValueId input) {
    return logits(net, *model, options, input);
  };
  record.usual_sample = [model](const ModelOptions& options) { return usual_sample(model->file(), options); };
  if (record.input == InputKind::kTokens) {
    if (const std::optional<int64_t> seq = (*data_input(model->file()).dims)[1])
      record.defaults = {{"model.seq", std::to_string(*seq)}};
  }
  return record;
}

}  // namespace trireme

// See write.h. Fields that do not change are copied as they are, so that what we do not read is kept.
#include "trireme/onnx/write.h"

#include <limits>

#include "trireme/base/error.h"
#include "trireme/onnx/wire_writer.h"

namespace trireme::onnx {
namespace {

using ValuesOf = std::function<std::optional<std::vector<float>>(const StoredTensor&)>;

WireWriter stored(const StoredTensor& tensor, std::string_view raw) {
  WireWriter message;
  for (const int64_t extent : tensor.shape) message.integer(1, extent);
  return message.integer(2, static_cast<int64_t>(tensor.type)).bytes(8, tensor.name).bytes(9, raw);
}

std::string_view text_of(const void* data, size_t bytes) {
  return {static_cast<const char*>(data), bytes};
}

bool is_attribute(Bytes attribute, std::string_view name, const std::string& where) {
  WireReader in(attribute, where);
  while (in.next()) {
    if (in.field() == 1) return in.text() == name;
  }
  return false;
}

// Without what says that it is trained: results beside the first, and the flag.
WireWriter for_inference(const NodeEntry& entry, Bytes node, const std::string& where) {
  const bool norm = entry.op == "BatchNormalization", dropout = entry.op == "Dropout";
  WireWriter message;
  WireReader in(node, where);
  int inputs = 0, outputs = 0;
  while (in.next()) {
    const int field = in.field();
    if (dropout && field == 1 && ++inputs > 2) continue;
    if (norm && field == 2 && ++outputs > 1) continue;
    if (norm && field == 5 && is_attribute(in.bytes(), "training_mode", where)) continue;
    message.copy(in.field_bytes());
  }
  return message;
}

WireWriter graph_with(const File& file, Bytes graph, const ValuesOf& values) {
  WireWriter message;
  WireReader in(graph, file.path);
  size_t node = 0;
  while (in.next()) {
    if (in.field() == 1) {
      const NodeEntry& entry = file.nodes.at(node++);
      if (entry.op == "BatchNormalization" || entry.op == "Dropout") {
        message.message(1, for_inference(entry, in.bytes(), file.path));
        continue;
      }
    }
    if (in.field() == 5) {
      const StoredTensor& tensor = file.initializers.at(parse_tensor(in.bytes(), file.path).name);
      const std::optional<std::vector<float>> own = tensor.type == Type::kF32 ? values(tensor) : std::nullopt;
      if (own || tensor.external) {
        message.message(5, stored(tensor, own ? text_of(own->data(), own->size() * sizeof(float))
                                              : text_of(tensor.raw.data(), tensor.raw.size())));
        continue;
      }
    }
    message.copy(in.field_bytes());
  }
  return message;
}

}  // namespace

std::string with_values(const File& file, const ValuesOf& values,
                        const std::map<std::string, std::string>& metadata) {
  WireWriter model;
  WireReader in(*file.memory.at(0), file.path);
  while (in.next()) {
    if (in.field() == 7)
      model.message(7, graph_with(file, in.bytes(), values));
    else
      model.copy(in.field_bytes());
  }
  for (const auto& [key, value] : metadata) model.message(14, WireWriter().bytes(1, key).bytes(2, value));
  if (model.text().size() > std::numeric_limits<int32_t>::max())
    throw_error("{}: with its weights inside it has {} bytes; ONNX files have less than 2 GiB", file.path,
                model.text().size());
  return model.text();
}

}  // namespace trireme::onnx

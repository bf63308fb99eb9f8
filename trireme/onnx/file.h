// An ONNX file as it was read: nodes, attributes and initializers of the graph, nothing decided yet. The
// format is that of onnx.proto; fields that nothing here asks for are passed over.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/onnx/tensor.h"
#include "trireme/onnx/wire.h"

namespace trireme::onnx {

// A tensor of the file, whose elements are decoded when they are asked for.
struct StoredTensor {
  std::string name;
  Type type = Type::kNone;
  Shape shape;
  Bytes raw;  // of the file, or of a file beside it; little-endian
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> numbers;  // of all types of integers, and the bits of 16-bit formats
  struct External {
    std::string location;
    int64_t offset = 0, length = -1;  // -1: to the end
  };
  std::optional<External> external;

  Tensor decode() const;
  // Elements from `first` on, as f32; for tensors too large to decode. Throws as decode() does.
  void read(int64_t first, std::span<float> values) const;

 private:
  bool is_raw() const {
    return !raw.empty() || external || (floats.empty() && doubles.empty() && numbers.empty());
  }
  void expect_elements() const;  // throws where there are more or fewer than the shape says
  double real_at(int64_t i) const;
};

struct Attribute {
  std::string name;
  std::optional<float> real;
  std::optional<int64_t> integer;
  std::string text;
  std::shared_ptr<const StoredTensor> tensor;
  std::vector<float> reals;
  std::vector<int64_t> integers;
  bool has_graph = false;
};

struct NodeEntry {
  std::string op, domain, name;
  std::vector<std::string> inputs, outputs;  // "" for one that is left out
  std::vector<Attribute> attributes;
};

struct ValueEntry {
  std::string name;
  Type type = Type::kNone;  // kNone: no tensor, or nothing is said
  // Extents; none where the file has a name or nothing. No list at all where it does not state the rank.
  std::optional<std::vector<std::optional<int64_t>>> dims;
};

struct File {
  std::string path;  // opens messages
  int64_t opset = 0;  // of the standard domain; 0 where the file uses others alone
  std::vector<NodeEntry> nodes;
  std::map<std::string, StoredTensor> initializers;
  std::vector<ValueEntry> inputs, outputs;                          // without initializers among the inputs
  std::vector<std::shared_ptr<const std::vector<uint8_t>>> memory;  // what `raw` points into
};

// Throws an Error that names the place for bytes that are no ONNX model. External data is left alone.
File parse_model(std::shared_ptr<const std::vector<uint8_t>> bytes, const std::string& where);
// A TensorProto by itself, as test data is stored. `bytes` must outlive it.
StoredTensor parse_tensor(Bytes bytes, const std::string& where);

// The file at `path`, with external data, which must lie inside of the file's folder.
std::shared_ptr<const File> read_file(const std::string& path);

}  // namespace trireme::onnx

// See file.h. The numbers in the switches are those of the fields in onnx.proto.
#include "trireme/onnx/file.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "trireme/base/dtype.h"
#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/text.h"

namespace trireme::onnx {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNodes = 1 << 20;
constexpr size_t kMostFileBytes = size_t{64} << 30;

Type type_of(int64_t number) {
  return number < 0 || number > 64 ? Type::kNone : static_cast<Type>(number);
}

Shape shape_of(const std::vector<int64_t>& dims, const std::string& name, const std::string& where) {
  if (dims.size() > Shape::kMaxDims)
    throw_error("{}: tensor '{}' has {} dims; at most {} are supported", where, name, dims.size(),
                Shape::kMaxDims);
  double elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) throw_error("{}: tensor '{}' has a dim of {}", where, name, dim);
    elements *= static_cast<double>(std::max<int64_t>(dim, 1));
  }
  if (elements > 0x1p48) throw_error("{}: tensor '{}' has more than 2^48 elements", where, name);
  return Shape(std::span<const int64_t>(dims));
}

void read_external(WireReader entry, StoredTensor::External& external, const std::string& where) {
  std::string key, value;
  while (entry.next()) {
    if (entry.field() == 1) key = entry.text();
    if (entry.field() == 2) value = entry.text();
  }
  if (key == "location") external.location = value;
  if (key != "offset" && key != "length") return;
  int64_t number = 0;
  for (const char digit : value) {
    if (digit < '0' || digit > '9' || number > std::numeric_limits<int64_t>::max() / 16)
      throw_error("{}: external data with {} '{}'; a number of bytes expected", where, key, value);
    number = number * 10 + (digit - '0');
  }
  (key == "offset" ? external.offset : external.length) = number;
}

// Whether as many elements are there as the shape says is looked at where they are decoded: external data is
// not there yet.
StoredTensor read_tensor(WireReader in, const std::string& where) {
  StoredTensor tensor;
  StoredTensor::External external;
  std::vector<int64_t> dims;
  bool outside = false;
  while (in.next()) {
    switch (in.field()) {
      case 1:
        in.add_to(dims);
        break;
      case 2:
        tensor.type = type_of(in.integer());
        break;
      case 4:
        in.add_to(tensor.floats);
        break;
      case 5:
      case 7:
      case 11:
        in.add_to(tensor.numbers);
        break;
      case 8:
        tensor.name = in.text();
        break;
      case 9:
        tensor.raw = in.bytes();
        break;
      case 10:
        in.add_to(tensor.doubles);
        break;
      case 13:
        read_external({in.bytes(), where}, external, where);
        break;
      case 14:
        outside = in.integer() == 1;
        break;
      default:
        break;
    }
  }
  tensor.shape = shape_of(dims, tensor.name, where);
  if (outside) tensor.external = external;
  return tensor;
}

Attribute read_attribute(WireReader in, const std::string& where) {
  Attribute attribute;
  while (in.next()) {
    switch (in.field()) {
      case 1:
        attribute.name = in.text();
        break;
      case 2:
        attribute.real = in.real();
        break;
      case 3:
        attribute.integer = in.integer();
        break;
      case 4:
        attribute.text = in.text();
        break;
      case 5:
        attribute.tensor = std::make_shared<StoredTensor>(read_tensor({in.bytes(), where}, where));
        break;
      case 6:
      case 11:
        attribute.has_graph = true;  // of If, Loop and Scan, which are refused
        break;
      case 7:
        in.add_to(attribute.reals);
        break;
      case 8:
        in.add_to(attribute.integers);
        break;
      default:
        break;
    }
  }
  return attribute;
}

NodeEntry read_node(WireReader in, const std::string& where) {
  NodeEntry node;
  while (in.next()) {
    switch (in.field()) {
      case 1:
        node.inputs.push_back(in.text());
        break;
      case 2:
        node.outputs.push_back(in.text());
        break;
      case 3:
        node.name = in.text();
        break;
      case 4:
        node.op = in.text();
        break;
      case 5:
        node.attributes.push_back(read_attribute({in.bytes(), where}, where));
        break;
      case 7:
        node.domain = in.text();
        break;
      default:
        break;
    }
  }
  return node;
}

// TypeProto.Tensor: elem_type, shape; of the shape, dims; of a dim, dim_value.
void read_tensor_type(WireReader in, ValueEntry& value, const std::string& where) {
  while (in.next()) {
    if (in.field() == 1) value.type = type_of(in.integer());
    if (in.field() != 2) continue;
    value.dims.emplace();
    WireReader shape(in.bytes(), where);
    while (shape.next()) {
      if (shape.field() != 1) continue;
      std::optional<int64_t>& extent = value.dims->emplace_back();
      WireReader dim(shape.bytes(), where);
      while (dim.next()) {
        if (dim.field() == 1) extent = dim.integer();
      }
    }
  }
}

ValueEntry read_value(WireReader in, const std::string& where) {
  ValueEntry value;
  while (in.next()) {
    if (in.field() == 1) value.name = in.text();
    if (in.field() != 2) continue;
    WireReader type(in.bytes(), where);
    while (type.next()) {
      if (type.field() == 1) read_tensor_type({type.bytes(), where}, value, where);
    }
  }
  return value;
}

void read_graph(WireReader in, File& file) {
  const std::string& where = file.path;
  while (in.next()) {
    switch (in.field()) {
      case 1:
        file.nodes.push_back(read_node({in.bytes(), where}, where));
        if (file.nodes.size() > kMostNodes)
          throw_error("{}: more than {} nodes; this is no model that Trireme can import", where, kMostNodes);
        break;
      case 5: {
        StoredTensor tensor = read_tensor({in.bytes(), where}, where);
        const std::string name = tensor.name;
        if (!file.initializers.emplace(name, std::move(tensor)).second)
          throw_error("{}: there are two initializers '{}'; names must differ", where, name);
        break;
      }
      case 11:
        file.inputs.push_back(read_value({in.bytes(), where}, where));
        break;
      case 12:
        file.outputs.push_back(read_value({in.bytes(), where}, where));
        break;
      case 15:
        throw_error("{}: it has sparse initializers, which are not supported; store them densely", where);
      default:
        break;
    }
  }
  // Before IR version 4, initializers stand among the inputs too.
  std::erase_if(file.inputs, [&](const ValueEntry& input) { return file.initializers.contains(input.name); });
}

void read_opset(WireReader in, File& file) {
  std::string domain;
  int64_t version = 0;
  while (in.next()) {
    if (in.field() == 1) domain = in.text();
    if (in.field() == 2) version = in.integer();
  }
  if (domain.empty() || domain == "ai.onnx") file.opset = version;
}

std::shared_ptr<const std::vector<uint8_t>> read_bytes(const std::string& path, const char* expected) {
  expect_regular_file(path, expected);
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) throw_error("{}: it can not be opened; {} expected", path, expected);
  const std::streamoff size = stream.tellg();
  if (size < 0 || static_cast<size_t>(size) > kMostFileBytes)
    throw_error("{}: {} bytes; at most {} are read", path, size, kMostFileBytes);
  auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(size));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(bytes->data()), size);
  if (!stream) throw_error("{}: it could not be read to its end", path);
  return bytes;
}

// A path that leads out of the model's folder would let a model read any file of its user.
fs::path inside(const fs::path& folder, const StoredTensor& tensor, const std::string& where) {
  const std::string& location = tensor.external->location;
  const fs::path path = fs::weakly_canonical(folder / location);
  const fs::path steps = path.lexically_relative(fs::weakly_canonical(folder));
  if (location.empty() || fs::path(location).is_absolute() || steps.empty() || *steps.begin() == "..")
    throw_error(
        "{}: tensor '{}' is stored in '{}', which is not inside of the model's folder; move the file there",
        where, tensor.name, location);
  return path;
}

void add_external(File& file) {
  const fs::path folder = fs::absolute(file.path).parent_path();
  std::map<fs::path, std::shared_ptr<const std::vector<uint8_t>>> opened;
  for (auto& [name, tensor] : file.initializers) {
    if (!tensor.external) continue;
    const fs::path path = inside(folder, tensor, file.path);
    auto& bytes = opened[path];
    if (!bytes) {
      bytes = read_bytes(path, "external data of an ONNX model");
      file.memory.push_back(bytes);
    }
    const auto size = static_cast<int64_t>(bytes->size());
    const int64_t offset = tensor.external->offset;
    const int64_t length = tensor.external->length < 0 ? size - offset : tensor.external->length;
    if (offset > size || length > size - offset)
      throw_error("{}: tensor '{}' is {} bytes from {} on of {}, which has {} bytes", file.path, name, length,
                  offset, path.string(), size);
    tensor.raw = Bytes(*bytes).subspan(static_cast<size_t>(offset), static_cast<size_t>(length));
  }
}

template <typename T>
T element(Bytes raw, int64_t i) {
  T value;
  std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
  return value;
}

double real_element(Type type, Bytes raw, int64_t i) {
  const auto from_bits = [&](auto format) {
    format.bits = element<uint16_t>(raw, i);
    return static_cast<double>(static_cast<float>(format));
  };
  if (type == Type::kF64) return element<double>(raw, i);
  if (type == Type::kF16) return from_bits(F16());
  if (type == Type::kBf16) return from_bits(Bf16());
  return element<float>(raw, i);
}

int64_t integer_element(Type type, Bytes raw, int64_t i) {
  switch (type) {
    case Type::kBool:
      return element<uint8_t>(raw, i) != 0;
    case Type::kU8:
      return element<uint8_t>(raw, i);
    case Type::kI8:
      return element<int8_t>(raw, i);
    case Type::kU16:
      return element<uint16_t>(raw, i);
    case Type::kI16:
      return element<int16_t>(raw, i);
    case Type::kU32:
      return element<uint32_t>(raw, i);
    case Type::kI32:
      return element<int32_t>(raw, i);
    default:
      return element<int64_t>(raw, i);
  }
}

}  // namespace

void StoredTensor::expect_elements() const {
  const size_t each = is_raw() ? type_bytes(type) : 1;
  const size_t found = is_raw()             ? raw.size()
                       : type == Type::kF32 ? floats.size()
                       : type == Type::kF64 ? doubles.size()
                                            : numbers.size();
  const size_t expected = static_cast<size_t>(shape.elements()) * each;
  if (found != expected)
    throw_error("tensor '{}' {} of {} has {} {}; {} expected", name, to_string(shape), type_name(type), found,
                is_raw() ? "bytes" : "elements", expected);
}

double StoredTensor::real_at(int64_t i) const {
  if (is_raw()) return real_element(type, raw, i);
  if (type == Type::kF32) return floats[i];
  if (type == Type::kF64) return doubles[i];
  const auto bits = static_cast<uint16_t>(numbers[i]);  // of a 16-bit format
  return real_element(type, {reinterpret_cast<const uint8_t*>(&bits), sizeof bits}, 0);
}

Tensor StoredTensor::decode() const {
  type_bytes(type);   // refuses strings
  expect_elements();  // before memory is taken for them
  Tensor result = zeros(type, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    if (is_real(type))
      result.reals[i] = real_at(i);
    else if (is_raw())
      result.integers[i] = integer_element(type, raw, i);
    else
      store(result, i, numbers[i]);
  }
  return result;
}

void StoredTensor::read(int64_t first, std::span<float> values) const {
  expect_elements();
  TRIREME_CHECK(is_real(type));
  TRIREME_CHECK(first + static_cast<int64_t>(values.size()) <= shape.elements());
  if (type == Type::kF32 && is_raw()) {
    if (!values.empty()) std::memcpy(values.data(), raw.data() + first * sizeof(float), values.size_bytes());
    return;
  }
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(real_at(first + static_cast<int64_t>(i)));
}

File parse_model(std::shared_ptr<const std::vector<uint8_t>> bytes, const std::string& where) {
  File file;
  file.path = where;
  file.memory.push_back(bytes);
  WireReader in(*bytes, where);
  bool has_graph = false, has_opset = false;
  while (in.next()) {
    if (in.field() == 7) {
      read_graph({in.bytes(), where}, file);
      has_graph = true;
    }
    if (in.field() == 8) {
      read_opset({in.bytes(), where}, file);
      has_opset = true;
    }
    if (in.field() == 25)
      throw_error("{}: it has functions of its own, which are not supported; export with inlined functions",
                  where);
  }
  if (!has_graph) throw_error("{}: there is no graph in it; an ONNX model expected", where);
  if (!has_opset) throw_error("{}: it does not say which ONNX opset it is for", where);
  return file;
}

StoredTensor parse_tensor(Bytes bytes, const std::string& where) {
  return read_tensor({bytes, where}, where);
}

std::shared_ptr<const File> read_file(const std::string& path) {
  auto file = std::make_shared<File>(parse_model(read_bytes(path, "an ONNX model"), path));
  add_external(*file);
  return file;
}

}  // namespace trireme::onnx

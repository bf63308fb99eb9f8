// The index as text, believed only as far as it was checked.
#include "trireme/checkpoint/tensor_index.h"

#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using nlohmann::json;

// No tensor is that large, and products of two such numbers still fit.
constexpr uint64_t kMaxElements = uint64_t{1} << 48;

[[noreturn]] void damaged(std::string_view where, const std::string& what) {
  throw_error("{}: {}; the file is damaged, or was written by another program", where, what);
}

const json& member(const json& object, const char* key, std::string_view where) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) damaged(where, fmt::format("'{}' is missing", key));
  return *found;
}

std::string file_name(const json& value, std::string_view where) {
  if (!value.is_string()) damaged(where, "the name of a file is no text");
  const std::string name = value.get<std::string>();
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    damaged(where, "a file is named that is not in this folder");
  return name;
}

int64_t count(const json& value, std::string_view where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxElements)
    damaged(where, "an extent or offset is no number of elements");
  return static_cast<int64_t>(value.get<uint64_t>());
}

Shape parse_shape(const json& value, std::string_view where) {
  if (!value.is_array() || value.size() > Shape::kMaxDims) damaged(where, "a shape is no list of extents");
  Shape shape;
  uint64_t elements = 1;
  for (const json& extent : value) {
    shape.push_back(count(extent, where));
    elements *= static_cast<uint64_t>(shape.back());
    if (elements > kMaxElements) damaged(where, "a tensor is too large");
  }
  return shape;
}

TensorPart parse_part(const Shape& whole, const json& dims, std::string_view where) {
  if (!dims.is_array() || dims.size() != static_cast<size_t>(whole.rank()))
    damaged(where, "a part has not the dims of its tensor");
  TensorPart part{whole, {}};
  for (int d = 0; d < whole.rank(); ++d) {
    if (!dims[d].is_array()) damaged(where, "the pieces of a dim are no list");
    std::vector<Part>& pieces = part.pieces.emplace_back();
    int64_t last = 0;
    for (const json& piece : dims[d]) {
      if (!piece.is_array() || piece.size() != 2) damaged(where, "a piece is not [begin, end]");
      const int64_t begin = count(piece[0], where), end = count(piece[1], where);
      if (begin < last || end <= begin || end > whole[d])
        damaged(where, fmt::format("a piece [{}, {}] does not lie within its tensor", begin, end));
      pieces.push_back({begin, end - begin});
      last = end;
    }
  }
  return part;
}

json dims_of(const TensorPart& part) {
  json dims = json::array();
  for (const std::vector<Part>& pieces : part.pieces) {
    json& dim = dims.emplace_back(json::array());
    for (const Part& piece : pieces) dim.push_back({piece.begin, piece.end()});
  }
  return dims;
}

}  // namespace

void TensorIndex::add(const TensorIndex& other) {
  for (const auto& [name, file] : other.files) {
    if (!files.emplace(name, file).second)
      throw_error("'{}' is in {} and in {}; expected in one file only", name, files[name], file);
  }
  for (const auto& [name, pieces] : other.parts)
    parts[name].insert(parts[name].end(), pieces.begin(), pieces.end());
  total_bytes += other.total_bytes;
}

std::string render_index(const TensorIndex& index) {
  json parts = json::object();
  for (const auto& [name, pieces] : index.parts) {
    json& tensor = parts[name];
    tensor["shape"] = pieces.at(0).part.whole.dims();
    for (const TensorIndex::Piece& piece : pieces)
      tensor["pieces"].push_back({{"file", piece.file}, {"dims", dims_of(piece.part)}});
  }
  json object = {{"metadata", {{"total_size", index.total_bytes}}}, {"weight_map", index.files}};
  if (!parts.empty()) object["parts"] = parts;
  return object.dump(1) + "\n";
}

TensorIndex parse_index(std::string_view text, std::string_view where) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json& map = member(object, "weight_map", where);
  if (!map.is_object()) damaged(where, "'weight_map' is no object");
  TensorIndex index;
  for (const auto& [name, file] : map.items()) index.files[name] = file_name(file, where);
  if (const auto metadata = object.find("metadata"); metadata != object.end() && metadata->is_object()) {
    const auto size = metadata->find("total_size");
    if (size != metadata->end() && size->is_number_unsigned()) index.total_bytes = size->get<uint64_t>();
  }
  const auto parts = object.find("parts");
  if (parts == object.end()) return index;
  if (!parts->is_object()) damaged(where, "'parts' is no object");
  for (const auto& [name, tensor] : parts->items()) {
    if (index.files.contains(name)) damaged(where, "a tensor is both whole and in parts");
    const Shape whole = parse_shape(member(tensor, "shape", where), where);
    const json& pieces = member(tensor, "pieces", where);
    if (!pieces.is_array() || pieces.empty()) damaged(where, "a tensor in parts has none");
    for (const json& piece : pieces) {
      index.parts[name].push_back({file_name(member(piece, "file", where), where),
                                   parse_part(whole, member(piece, "dims", where), where)});
    }
  }
  return index;
}

void check_complete(const TensorIndex& index, std::string_view where) {
  for (const auto& [name, pieces] : index.parts) {
    const Shape& whole = pieces.at(0).part.whole;
    int64_t elements = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      elements += pieces[i].part.shape().elements();
      for (size_t j = 0; j < i; ++j) {
        if (pieces[j].part.whole != whole || common_elements(pieces[i].part, pieces[j].part) > 0)
          damaged(where, fmt::format("{} and {} have the same elements of '{}'", pieces[j].file,
                                     pieces[i].file, name));
      }
    }
    if (elements != whole.elements())
      damaged(where,
              fmt::format("the parts of '{}' have {} elements of {}", name, elements, whole.elements()));
  }
}

}  // namespace trireme

// The header of a safetensors file: which tensors it holds and where. Parsing accepts exactly the format
// and nothing near it, so that a damaged or crafted file is refused before any of its bytes are believed:
//
//   8 bytes    N, little-endian, at most kMaxHeaderBytes
//   N bytes    JSON, beginning '{', padded with spaces: "name": {dtype, shape, data_offsets: [begin, end)}
//              and optionally "__metadata__": {string: string}
//   the rest   data, row-major little-endian, each byte in exactly one tensor
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/shape.h"

namespace trireme {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr uint64_t kHeaderPrefixBytes = 8;

struct StoredTensor {
  std::string name;
  std::string format;          // as the file spells it: "F32"
  std::optional<DType> dtype;  // nothing for formats that exist but that Trireme does not compute with
  Shape shape;
  uint64_t begin = 0;  // offsets in the data, not in the file
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// The length of the JSON, from the first 8 bytes of a file of `file_bytes`. `where` opens every message.
uint64_t parse_header_length(std::string_view prefix, uint64_t file_bytes, std::string_view where);
// The header from its JSON, for a file with `data_bytes` of data. Throws Error.
SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, std::string_view where);
// Length prefix and padded JSON for tensors whose offsets are set. Throws Error when a name is not UTF-8.
std::string render_header(const SafetensorsHeader& header);

std::string_view safetensors_name(DType dtype);  // "F32"

}  // namespace trireme

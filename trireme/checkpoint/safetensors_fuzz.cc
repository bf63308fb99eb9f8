// The safetensors header from bytes of any kind: refused with an Error, or accepted; what was accepted lies
// within the data without holes or overlap, and written anew reads back as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/checkpoint/safetensors_header.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  SafetensorsHeader header;
  uint64_t data_bytes = 0;
  try {
    const uint64_t length = parse_header_length(file, size, "fuzz");
    data_bytes = size - kHeaderPrefixBytes - length;
    header = parse_header(file.substr(kHeaderPrefixBytes, length), data_bytes, "fuzz");
  } catch (const Error&) {
    return 0;
  }
  uint64_t next = 0;
  for (const StoredTensor& tensor : header.tensors) {
    require(tensor.begin == next && tensor.end >= tensor.begin);
    if (tensor.dtype) require(tensor.bytes() == tensor.shape.elements() * size_of(*tensor.dtype));
    next = tensor.end;
  }
  require(next == data_bytes);
  // Outside the try: a refusal of our own header is a finding.
  const std::string written = render_header(header);
  const uint64_t length = parse_header_length(written, written.size() + data_bytes, "again");
  require(length % 8 == 0 && length == written.size() - kHeaderPrefixBytes);
  require(render_header(parse_header(std::string_view(written).substr(kHeaderPrefixBytes), data_bytes,
                                     "again")) == written);
  return 0;
}

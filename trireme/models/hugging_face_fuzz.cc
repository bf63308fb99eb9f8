// config.json of a model from bytes of any kind: refused with an Error, or accepted; a model that was
// accepted, written as config.json, reads back as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/models/hugging_face.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  StatedModel read;
  try {
    read = parse_hugging_face_config({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
    return 0;
  }
  // Outside the try: a refusal of our own config is a finding.
  const std::string written = hugging_face_config(read.model);
  if (hugging_face_config(parse_hugging_face_config(written, "again").model) != written) std::abort();
  return 0;
}

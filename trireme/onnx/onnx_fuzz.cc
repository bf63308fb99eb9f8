// The reader of ONNX files on any bytes: it returns or throws Error, and decodes no more elements than there
// are bytes for.
#include "trireme/base/error.h"
#include "trireme/onnx/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto bytes = std::make_shared<const std::vector<uint8_t>>(data, data + size);
    const trireme::onnx::File file = trireme::onnx::parse_model(bytes, "fuzz");
    for (const auto& [name, tensor] : file.initializers) {
      try {
        const trireme::onnx::Tensor decoded = tensor.decode();
        TRIREME_CHECK(static_cast<int64_t>(decoded.reals.size() + decoded.integers.size()) ==
                      decoded.elements());
      } catch (const trireme::Error&) {
      }
    }
  } catch (const trireme::Error&) {
  }
  try {
    trireme::onnx::parse_tensor({data, size}, "fuzz").decode();
  } catch (const trireme::Error&) {
  }
  return 0;
}

// The index of tensors from bytes of any kind: refused with an Error, or accepted; what was accepted lies
// within its tensors, and written anew reads back as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/checkpoint/tensor_index.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  TensorIndex index;
  try {
    index = parse_index({reinterpret_cast<const char*>(data), size}, "fuzz");
    check_complete(index, "fuzz");
  } catch (const Error&) {
    return 0;
  }
  for (const auto& [name, pieces] : index.parts) {
    for (const TensorIndex::Piece& piece : pieces) {
      int64_t elements = 0;
      for_each_common_run(piece.part, all_of(piece.part.whole), [&](int64_t from, int64_t to, int64_t count) {
        require(from >= 0 && to >= 0 && to + count <= piece.part.whole.elements());
        elements += count;
      });
      require(elements == piece.part.shape().elements());
    }
  }
  // Outside the try: a refusal of our own index is a finding.
  const std::string written = render_index(index);
  require(render_index(parse_index(written, "again")) == written);
  return 0;
}

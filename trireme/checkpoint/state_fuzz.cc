// The small files of a checkpoint from bytes of any kind: refused with an Error, or read; what was read,
// written anew, reads back as the same. The first byte chooses which file it is.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/checkpoint/state.h"

namespace {

template <typename Value>
void try_out(std::string_view text, Value (*parse)(std::string_view, std::string_view),
             std::string (*render)(const Value&)) {
  Value value;
  try {
    value = parse(text, "fuzz");
  } catch (const trireme::Error&) {
    return;
  }
  // Outside the try: a refusal of our own file is a finding.
  if (parse(render(value), "again") != value) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0)
    try_out(text, trireme::parse_state, trireme::render_state);
  else
    try_out(text, trireme::parse_checksums, trireme::render_checksums);
  return 0;
}

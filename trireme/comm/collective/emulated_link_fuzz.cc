// Whatever --link is given, it is refused with an Error, or read as a link that prints.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/comm/collective/emulated_link.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  comm::EmulatedLink link;
  try {
    link = comm::parse_emulated_link({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) {
    return 0;
  }
  if (!(link.latency_seconds >= 0 && link.jitter_seconds >= 0 && link.bytes_per_second >= 0)) std::abort();
  if (comm::to_text(link).empty()) std::abort();
  return 0;
}

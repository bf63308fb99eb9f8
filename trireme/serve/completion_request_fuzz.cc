// Requests from the network: any bytes either are a request or an Error, and what is read keeps to the
// limits.
#include <cstdint>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/serve/completion_request.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const serve::Limits limits{.waiting = 8, .tokens = 100};
  try {
    const serve::CompletionRequest request = serve::read_completion_request(body, limits);
    TRIREME_CHECK(request.options.tokens <= limits.tokens);
    TRIREME_CHECK(request.stop.size() <= static_cast<size_t>(limits.stops));
  } catch (const Error&) {
  }
  try {
    for (const Image& image : serve::read_classify_request(body, limits).images)
      TRIREME_CHECK(static_cast<int64_t>(image.pixels.size()) == 3 * image.height * image.width);
  } catch (const Error&) {
  }
  return 0;
}

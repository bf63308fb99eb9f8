// JPEG and PNG decoders on any bytes, and resizing of what they accept. A small cap on pixels keeps the
// fuzzer fast; the cap itself is what bounds memory in real use.
#include "trireme/base/error.h"
#include "trireme/data/image_decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const trireme::Image image = trireme::decode_image({data, size}, "fuzz", int64_t{1} << 16);
    TRIREME_CHECK(image.height * image.width * 3 == static_cast<int64_t>(image.pixels.size()));
    const trireme::Image fitted = trireme::fit_image(image, 5, 7);
    TRIREME_CHECK(fitted.pixels.size() == size_t{5 * 7 * 3});
  } catch (const trireme::Error&) {
  }
  return 0;
}

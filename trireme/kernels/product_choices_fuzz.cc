// Any text is parsed or refused with an Error; what is parsed prints and parses to the same.
#include <cstdint>

#include "trireme/base/error.h"
#include "trireme/kernels/product_choices.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string text =
        trireme::print(trireme::parse_products({reinterpret_cast<const char*>(data), size}, "fuzz"));
    TRIREME_CHECK(trireme::print(trireme::parse_products(text, "fuzz")) == text);
  } catch (const trireme::Error&) {
  }
  return 0;
}

// Pairs of a text: refused with an Error, or every field is of one line and has no tab, and the lines ascend.
#include <cstdint>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/data/pair_samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    int64_t line = 0;
    for (const PairText& pair : parse_pairs(text, "fuzz")) {
      for (const std::string_view field : {pair.source, pair.target}) {
        TRIREME_CHECK(field.find_first_of("\t\n") == field.npos);
        TRIREME_CHECK((field.data() >= text.data() && field.data() + field.size() <= text.data() + size));
      }
      TRIREME_CHECK(pair.line > line);
      line = pair.line;
    }
  } catch (const Error&) {
  }
  return 0;
}

// Token files of any bytes: what the layout promises lies within the file.
#include "trireme/base/error.h"
#include "trireme/data/token_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const trireme::TokenFileLayout layout =
        trireme::parse_token_file({data, size}, static_cast<int64_t>(size), "fuzz");
    TRIREME_CHECK(layout.count > 0);
    TRIREME_CHECK((layout.id_bytes == 2 || layout.id_bytes == 4));
    TRIREME_CHECK(layout.offset_bytes % layout.id_bytes == 0);
    TRIREME_CHECK(layout.offset_bytes + layout.id_bytes * layout.count == static_cast<int64_t>(size));
  } catch (const trireme::Error&) {
  }
  return 0;
}

// Link tables from bytes of any kind: refused with an Error, or accepted and written so that they read back.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/comm/collective/link_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  std::vector<comm::LinkTable> tables;
  try {
    tables = comm::parse_link_tables({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
    return 0;
  }
  // Outside the try: a refusal of our own file is a finding.
  const std::string text = comm::to_json(tables);
  if (comm::to_json(comm::parse_link_tables(text, "again")) != text) std::abort();
  return 0;
}

// Cells of a grid from bytes of any kind: they are refused with an Error, or come back the same when they are
// written and read again.
#include <cstdint>
#include <cstdlib>

#include "trireme/base/error.h"
#include "trireme/bench/cell_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  std::string text;
  try {
    text = bench::render_cell(bench::parse_cell({reinterpret_cast<const char*>(data), size}, "fuzz.json"));
  } catch (const Error&) {
    return 0;
  }
  // Outside the try: a refusal here is a finding.
  if (bench::render_cell(bench::parse_cell(text, "again.json")) != text) std::abort();
  return 0;
}

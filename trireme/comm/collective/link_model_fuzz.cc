// Link models from bytes of any kind: refused with an Error, or accepted and written so that they read back.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/comm/collective/link_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  std::vector<comm::LinkModel> models;
  try {
    models = comm::parse_link_models({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
    return 0;
  }
  // Outside the try: a refusal of our own file is a finding.
  if (comm::parse_link_models(comm::to_json(models), "again") != models) std::abort();
  return 0;
}

// A timeline from bytes of any kind: whatever comes back can be sent, and read again says the same.
#include <cstdint>
#include <string>

#include "trireme/base/error.h"
#include "trireme/dashboard/timelines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme::dashboard;
  using Ordered = nlohmann::ordered_json;
  const Ordered once = read_timeline({reinterpret_cast<const char*>(data), size});
  const std::string sent = once.dump(-1, ' ', false, Ordered::error_handler_t::replace);
  const Ordered again = read_timeline(sent);
  TRIREME_CHECK(again.is_null() == once.is_null());
  if (!once.is_null()) TRIREME_CHECK(again["ranks"].size() == once["ranks"].size());
  return 0;
}

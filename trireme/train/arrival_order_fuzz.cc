// Logs of arrivals from bytes of any kind: refused with an Error, or read; whoever is among the arrivals of a
// log that was read is a rank of the run. The first byte chooses whose log it is.
#include <cstdint>
#include <cstdlib>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/train/arrival_order.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  if (size == 0) return 0;
  std::istringstream log(std::string(reinterpret_cast<const char*>(data + 1), size - 1));
  const int rank = data[0] / 2 % 3;
  const bool served = data[0] % 2 == 0;
  try {
    const int ranks = served ? 7 : 3;
    const Agreement agreement({served ? ExchangeRule{.method = "server", .numbers = {{"servers", 3}}}
                                      : ExchangeRule{.method = "ad_psgd"}},
                              ranks);
    const ArrivalOrder arrivals = parse_arrivals(log, "fuzz", agreement, ranks, rank);
    if (arrivals.empty()) std::abort();
    for (const auto& [step, taken] : arrivals) {
      for (const int one : taken) {
        if (served ? std::abs(one) < 3 || std::abs(one) > 6 : one < 0 || one > 2) std::abort();
      }
    }
  } catch (const Error&) {
  }
  return 0;
}

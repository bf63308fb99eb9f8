// metrics.jsonl from bytes of any kind: refused with an Error, or read; what was read is summed up and drawn
// as `trireme inspect run` does.
#include <cstdint>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/cli/curve.h"
#include "trireme/cli/run_metrics.h"
#include "trireme/run/learning.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  try {
    std::istringstream file(std::string(reinterpret_cast<const char*>(data), size));
    const cli::RunMetrics metrics = cli::parse_metrics(file, "fuzz");
    cli::summary_of(metrics);
    cli::draw_curve(metrics.loss, metrics.validation);
    learning_by_part(metrics.steps, 4);
    reached(metrics.steps, 1);
  } catch (const Error&) {
  }
  return 0;
}

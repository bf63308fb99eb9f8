// A log from bytes of any kind: its numbers are cut to a curve. And a config.toml of the same bytes.
#include <cmath>
#include <cstdint>
#include <string>

#include "trireme/base/error.h"
#include "trireme/dashboard/grid.h"
#include "trireme/dashboard/number_log.h"
#include "trireme/dashboard/run_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme::dashboard;
  const std::string text(reinterpret_cast<const char*>(data), size);
  NumberLog log("");
  log.add(text);
  for (const std::string& name : log.names()) {
    const Curve curve{log.column("step"), log.column(name)};
    TRIREME_CHECK(log.column(name).size() == log.rows());
    for (const double width : {0.25, 1.0, 1024.0}) cut(curve, {width, -5, 20}, kSlots);
    for (const double from : curve.y)
      if (std::isfinite(from)) means(curve, grid_over(from, from + 100, 50, 1));
  }
  flat_toml(text);
  return 0;
}

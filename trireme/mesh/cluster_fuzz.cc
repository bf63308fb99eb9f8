// Cluster files: whatever is written in one, it is read or refused with an Error, and what was read is
// written so that it reads back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/mesh/cluster_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  Cluster cluster;
  try {
    cluster = parse_cluster({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
    return 0;
  }
  // Outside the try: a refusal of our own file is a finding.
  if (parse_cluster(to_toml(cluster), "again") != cluster) std::abort();
  return 0;
}

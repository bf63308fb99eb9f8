// IDX readers on any bytes: they return or throw Error, and never hold more memory than the input explains.
#include "trireme/base/error.h"
#include "trireme/data/file.h"
#include "trireme/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  try {
    const trireme::IdxImages images = trireme::parse_idx_images(bytes, "fuzz");
    TRIREME_CHECK(images.count * images.height * images.width == static_cast<int64_t>(images.pixels.size()));
  } catch (const trireme::Error&) {
  }
  try {
    TRIREME_CHECK(trireme::parse_idx_labels(bytes, "fuzz").size() + 8 == size);
  } catch (const trireme::Error&) {
  }
  try {
    TRIREME_CHECK(trireme::gunzip(bytes, "fuzz", size_t{1} << 20).size() <= size_t{1} << 20);
  } catch (const trireme::Error&) {
  }
  return 0;
}

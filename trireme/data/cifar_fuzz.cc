// The CIFAR-10 reader on any bytes.
#include "trireme/base/error.h"
#include "trireme/data/cifar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trireme::ImageSet set;
  try {
    trireme::parse_cifar10({data, size}, "fuzz", set);
    TRIREME_CHECK(set.size() * set.image_bytes() == static_cast<int64_t>(set.pixels.size()));
    for (const int32_t label : set.labels) TRIREME_CHECK(label < 10);
  } catch (const trireme::Error&) {
  }
  return 0;
}

// The structures of DLPack before version 1, which is what numpy 1 and torch exchange and everybody still
// takes. (dlpack.org; an ABI, so the names and the order are given.)
#pragma once

#include <cstdint>

namespace trireme::python {

struct DLDevice {
  int32_t device_type;  // 1: the CPU
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;  // 0 int, 1 unsigned, 2 float, 4 bfloat, 6 bool
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

inline constexpr int32_t kDLCpu = 1;

}  // namespace trireme::python

// From a DType to the C++ type of its elements.
#pragma once

#include <cstdint>

#include "trireme/base/dtype.h"
#include "trireme/base/error.h"

namespace trireme {

// Calls body with a value of the type: with_type(dtype, [&](auto zero) { using T = decltype(zero); … }).
template <typename Body>
auto with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f64:
      return body(double{});
    case DType::f32:
      return body(float{});
    case DType::f16:
      return body(F16{});
    case DType::bf16:
      return body(Bf16{});
    case DType::i64:
      return body(int64_t{});
    case DType::i32:
      return body(int32_t{});
    case DType::u8:
      return body(uint8_t{});
  }
  throw_error("number format {} is unknown", static_cast<int>(dtype));
}

}  // namespace trireme

// A tensor somewhere in memory: pointer, format, extents. Always dense and row-major; owns nothing.
#pragma once

#include <cstddef>

#include "trireme/base/dtype.h"
#include "trireme/base/shape.h"

namespace trireme {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  int64_t elements() const { return shape.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }

  template <typename T>
  T* as() const {
    TRIREME_CHECK(dtype == dtype_of<T>);
    return static_cast<T*>(data);
  }
};

}  // namespace trireme

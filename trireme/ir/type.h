// The type of a value: a tensor without its memory.
#pragma once

#include <ostream>
#include <string>

#include "trireme/base/dtype.h"
#include "trireme/base/shape.h"

namespace trireme {

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  size_t bytes() const { return static_cast<size_t>(shape.elements()) * size_of(dtype); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

inline std::string to_string(const TensorType& type) {
  return std::string(name(type.dtype)) + to_string(type.shape);
}
inline std::ostream& operator<<(std::ostream& out, const TensorType& type) {
  return out << to_string(type);
}

}  // namespace trireme

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

// Graphs may come from a file, so sizes are bounded before anything is reckoned with them: the product of a
// shape's extents, zeros taken as ones, is at most kMaxElements. No product of some of them can then
// overflow.
inline constexpr int64_t kMaxElements = int64_t{1} << 48;
bool has_possible_size(const Shape& shape);

inline std::string to_string(const TensorType& type) {
  return std::string(name(type.dtype)) + to_string(type.shape);
}
inline std::ostream& operator<<(std::ostream& out, const TensorType& type) {
  return out << to_string(type);
}

}  // namespace trireme

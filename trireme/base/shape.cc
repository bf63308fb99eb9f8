// Extents of tensors; see shape.h.
#include "trireme/base/shape.h"

#include <algorithm>

namespace trireme {

Shape::Shape(std::span<const int64_t> dims) {
  for (int64_t extent : dims) push_back(extent);
}

void Shape::set(int dim, int64_t extent) {
  TRIREME_CHECK(dim >= 0);
  TRIREME_CHECK(dim < rank_);
  TRIREME_CHECK(extent >= 0);
  dims_[dim] = extent;
}

void Shape::push_back(int64_t extent) {
  TRIREME_CHECK(rank_ < kMaxDims);
  TRIREME_CHECK(extent >= 0);
  dims_[rank_++] = extent;
}

int64_t Shape::elements(int first, int last) const {
  int64_t product = 1;
  for (int i = first; i < last; ++i) product *= dims_[i];
  return product;
}

bool Shape::is_suffix_of(const Shape& longer) const {
  return rank_ <= longer.rank_ && std::ranges::equal(dims(), longer.dims().last(rank_));
}

Shape Shape::slice(int first, int last) const {
  return Shape(dims().subspan(first, last - first));
}

bool operator==(const Shape& a, const Shape& b) {
  return std::ranges::equal(a.dims(), b.dims());
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << to_string(shape);
}

}  // namespace trireme

// The extents of a tensor, row-major, at most kMaxDims of them. A scalar has rank 0 and one element.
// Held inline so that views can be made in the steady state without touching the heap.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>

#include "trireme/base/error.h"

namespace trireme {

class Shape {
 public:
  static constexpr int kMaxDims = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int dim) const {
    TRIREME_CHECK(dim >= 0);
    TRIREME_CHECK(dim < rank_);
    return dims_[dim];
  }
  int64_t back() const { return (*this)[rank_ - 1]; }
  void set(int dim, int64_t extent);
  void push_back(int64_t extent);
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  auto begin() const { return dims().begin(); }
  auto end() const { return dims().end(); }

  int64_t elements() const { return elements(0, rank_); }
  int64_t elements(int first, int last) const;  // product of dims [first, last)
  bool is_suffix_of(const Shape& longer) const;
  Shape slice(int first, int last) const;  // dims [first, last)

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxDims> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[8,256]"
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace trireme

// The geometry of a reduction over any set of dims, and how it is cut into parts.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "trireme/base/shape.h"

namespace trireme::cpu {

// Columns that are accumulated together, in the first-level cache, when the innermost dims are kept.
inline constexpr int64_t kReductionColumns = 1024;

// Adjacent dims that are all kept or all reduced count as one. The innermost such group is handled by
// the inner loops; the groups outside it are reached through offset().
class Reduction {
 public:
  Reduction(const Shape& shape, std::span<const int64_t> reduced_dims);

  int64_t kept_outer() const { return kept_.count; }
  int64_t reduced_outer() const { return reduced_.count; }
  int64_t inner() const { return inner_; }  // extent of the innermost group
  bool inner_is_reduced() const { return inner_is_reduced_; }
  int64_t reduced_elements() const { return reduced_.count * (inner_is_reduced_ ? inner_ : 1); }

  // Where in x the inner group of these two outer indices begins.
  int64_t offset(int64_t kept, int64_t reduced) const {
    return kept_.offset(kept) + reduced_.offset(reduced);
  }

  // A reduction to few outputs is cut into this many parts, which are reduced on their own and then
  // combined in order. A function of the shape alone, so that the bits are.
  int64_t parts() const;

 private:
  struct Groups {
    std::array<int64_t, Shape::kMaxDims> extents{}, strides{};
    int size = 0;
    int64_t count = 1;
    void push(int64_t extent, int64_t stride);
    int64_t offset(int64_t index) const;
  };
  Groups kept_, reduced_;  // innermost first
  int64_t inner_ = 1;
  bool inner_is_reduced_ = true;
};

}  // namespace trireme::cpu

// What the loader hands to the training step: named tensors in host memory, row-major, the batch dim first.
// Tokens come as "ids" and "targets" (i32 [B,T]); images as "images" (f32 [B,C,H,W]) and "labels" (i32 [B]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/part.h"
#include "trireme/base/shape.h"
#include "trireme/base/tensor_view.h"

namespace trireme {

// A target that counts for nothing in the loss; the default `ignore_index` of cross_entropy.
inline constexpr int32_t kIgnoreTarget = -1;

struct HostTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  // Memory is kept, so that going back to a shape seen before allocates nothing. Contents are unspecified.
  void reset(DType new_dtype, const Shape& new_shape);

  TensorView view() { return {bytes.data(), dtype, shape}; }
  template <typename T>
  std::span<T> values() {
    if (dtype != dtype_of<T>) refuse_type(dtype_of<T>);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  // The elements of one row, i.e. of index `row` of the first dim.
  template <typename T>
  std::span<T> row(int64_t row) {
    const size_t count = static_cast<size_t>(shape.elements(1, shape.rank()));
    return values<T>().subspan(static_cast<size_t>(row) * count, count);
  }

 private:
  [[noreturn]] void refuse_type(DType wanted) const;  // throws Error
};

// Where a stream of samples stands: sample `index` (in the shuffled order) of `epoch` comes next.
struct DataPosition {
  int64_t epoch = 0;
  int64_t index = 0;
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

struct Batch {
  std::vector<std::pair<std::string, HostTensor>> tensors;
  int64_t rows = 0;         // rows that hold samples; rows after them are padding
  DataPosition position;    // of the first sample of the whole batch (all ranks' rows)
  bool ends_epoch = false;  // the last sample of an epoch is in the whole batch
  // Which rows of the whole batch it has, one part after another; none: all of them.
  std::vector<Part> parts;

  // Where row `row` of the whole batch is in this one, with all of the `count` rows that begin there. Throws
  // Error.
  int64_t place_of(int64_t row, int64_t count) const;
  HostTensor& at(std::string_view name);  // throws Error with the names there are
};

}  // namespace trireme

// A part of a tensor and where it lies in the whole: for each dim, the pieces of that dim that the part has,
// one after another. The part is their product, row-major.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trireme/base/part.h"
#include "trireme/base/shape.h"
#include "trireme/base/tensor_view.h"

namespace trireme {

struct TensorPart {
  Shape whole;
  std::vector<std::vector<Part>> pieces;  // per dim; ascending and apart

  Shape shape() const;  // of the part
  bool is_whole() const { return shape() == whole; }
  friend bool operator==(const TensorPart&, const TensorPart&) = default;
};

TensorPart all_of(const Shape& whole);

// How files get at a tensor that is not in host memory: `bytes` of it from `offset` on are read or written.
struct TensorReach {
  std::function<void(size_t offset, void* to, size_t bytes)> read;
  std::function<void(size_t offset, const void* from, size_t bytes)> write;
};

// Memory that holds a part of the tensor of that name.
struct PartView {
  std::string name;
  TensorView view;  // of host memory, or without memory where `reach` leads to it
  TensorPart part;  // view.shape is its shape
  TensorReach reach = {};
};

// Calls body(first element in `from`, first element in `to`, elements) for each run of elements that both
// parts of a tensor have and that are neighbours in both.
using RunBody = std::function<void(int64_t from, int64_t to, int64_t elements)>;
void for_each_common_run(const TensorPart& from, const TensorPart& to, const RunBody& body);

// How many elements both have.
int64_t common_elements(const TensorPart& a, const TensorPart& b);

}  // namespace trireme

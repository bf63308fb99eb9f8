// Several tensors in one message, one behind the other: a message for each would wait for the link each time.
#pragma once

#include <vector>

#include "trireme/ir/builder.h"

namespace trireme {

ValueId reshaped(Builder& b, ValueId value, const std::vector<int64_t>& shape);
ValueId flat(Builder& b, ValueId value);                          // [n]
ValueId packed(Builder& b, const std::vector<ValueId>& tensors);  // [all elements]

// Takes them out again, in their order.
class Unpacked {
 public:
  Unpacked(Builder& b, ValueId all) : b_(b), all_(all) {}
  ValueId next(const Shape& shape);  // the next so many elements, in this shape

 private:
  Builder& b_;
  ValueId all_;
  int64_t start_ = 0;
};

}  // namespace trireme

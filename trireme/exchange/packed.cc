// See packed.h.
#include "trireme/exchange/packed.h"

namespace trireme {

ValueId reshaped(Builder& b, ValueId value, const std::vector<int64_t>& shape) {
  return b.op("reshape", {value}, {{"shape", shape}});
}

ValueId flat(Builder& b, ValueId value) {
  return reshaped(b, value, {b.shape(value).elements()});
}

ValueId packed(Builder& b, const std::vector<ValueId>& tensors) {
  std::vector<ValueId> parts;
  for (const ValueId tensor : tensors) parts.push_back(flat(b, tensor));
  return b.op("concat", parts, {{"dim", 0}});
}

ValueId Unpacked::next(const Shape& shape) {
  const int64_t size = shape.elements();
  const ValueId piece = b_.op("slice", {all_}, {{"dim", 0}, {"start", start_}, {"size", size}});
  start_ += size;
  return reshaped(b_, piece, {shape.begin(), shape.end()});
}

}  // namespace trireme

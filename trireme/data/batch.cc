// Lookup and reuse of batch tensors; see batch.h.
#include "trireme/data/batch.h"

#include "trireme/base/error.h"

namespace trireme {

void HostTensor::reset(DType new_dtype, const Shape& new_shape) {
  dtype = new_dtype;
  shape = new_shape;
  bytes.resize(static_cast<size_t>(shape.elements()) * size_of(dtype));
}

void HostTensor::refuse_type(DType wanted) const {
  throw_error("a tensor is {} {}, but was taken for {}", name(dtype), to_string(shape), name(wanted));
}

int64_t Batch::place_of(int64_t row, int64_t count) const {
  const int64_t have = tensors.empty() ? 0 : tensors[0].second.shape[0];
  if (parts.empty() && row + count <= have) return row;
  int64_t before = 0;
  for (const Part& part : parts) {
    if (part.begin <= row && row + count <= part.end()) return before + row - part.begin;
    before += part.size;
  }
  throw_error("rows {} to {} of the whole batch are needed, but of this one {} rows are here{}", row,
              row + count, have, parts.empty() ? "" : ", and not those");
}

HostTensor& Batch::at(std::string_view name) {
  for (auto& [tensor_name, tensor] : tensors) {
    if (tensor_name == name) return tensor;
  }
  std::string known;
  for (const auto& [tensor_name, tensor] : tensors) known += (known.empty() ? "" : ", ") + tensor_name;
  throw_error("the batch has no tensor '{}'; it has: {}", name, known);
}

}  // namespace trireme

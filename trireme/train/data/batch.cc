// Lookup and reuse of batch tensors; see batch.h.
#include "trireme/train/data/batch.h"

#include "trireme/base/error.h"

namespace trireme {

void HostTensor::reset(DType new_dtype, const Shape& new_shape) {
  dtype = new_dtype;
  shape = new_shape;
  bytes.resize(static_cast<size_t>(shape.elements()) * size_of(dtype));
}

HostTensor& Batch::at(std::string_view name) {
  std::string known;
  for (auto& [tensor_name, tensor] : tensors) {
    if (tensor_name == name) return tensor;
    known += (known.empty() ? "" : ", ") + tensor_name;
  }
  throw_error("the batch has no tensor '{}'; it has: {}", name, known);
}

}  // namespace trireme

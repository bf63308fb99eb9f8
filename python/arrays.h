// Arrays between Python and the library. In: whatever has the buffer protocol or __dlpack__ (numpy, torch,
// array, memoryview). Out: Tensor, which has both.
#pragma once

#include <memory>
#include <string>

#include "python/bindings.h"
#include "trireme/base/tensor_view.h"
#include "trireme/data/batch.h"

namespace trireme::python {

// Copies an array into the tensor, whose shape and format it has: numbers are converted to it, integers only
// where they fit. Throws Error with `name` for an array of another shape, or whose numbers are of another
// kind.
void copy_array(py::handle array, const std::string& name, HostTensor& to);
// The same with the shape that the array has.
HostTensor tensor_of(py::handle array, const std::string& name, DType dtype);

// Numbers in host memory, of somebody who lives as long as this does.
struct Tensor {
  std::shared_ptr<void> owner;
  TensorView view;
};
// A tensor of its own.
Tensor own_tensor(std::vector<float> values, const Shape& shape);

}  // namespace trireme::python

// What the sources of the extension module share. Each binds one noun of the library; module.cc calls them
// all. The package trireme/ beside them is what people import: it re-exports these classes and adds the
// functions.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/shape.h"

namespace trireme::python {

namespace py = pybind11;

void bind_config(py::module_& module);
void bind_plan(py::module_& module);
void bind_inspect(py::module_& module);
void bind_simulate(py::module_& module);
void bind_verify(py::module_& module);
void bind_arrays(py::module_& module);
void bind_model(py::module_& module);
void bind_data(py::module_& module);
void bind_trainer(py::module_& module);
void bind_train(py::module_& module);

inline Shape shape_of(const std::vector<int64_t>& dims) {
  return Shape(std::span<const int64_t>(dims));
}
inline py::tuple tuple_of(const Shape& shape) {
  return py::tuple(py::cast(std::vector<int64_t>(shape.begin(), shape.end())));
}

}  // namespace trireme::python

// See arrays.h.
#include "python/arrays.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "python/dlpack.h"
#include "trireme/base/error.h"

namespace trireme::python {
namespace {

// Numbers somewhere, not necessarily dense. Kinds are those of DLPack.
struct StridedArray {
  const std::byte* data = nullptr;
  DLDataType type{};
  std::vector<int64_t> shape, strides;  // strides in bytes
  py::object keeps;                     // the memory alive
};

std::optional<DLDataType> type_of_format(std::string_view format, int64_t bytes) {
  while (!format.empty() && std::string_view("<=@").find(format[0]) != std::string_view::npos)
    format.remove_prefix(1);
  if (format.size() != 1) return std::nullopt;
  const auto bits = static_cast<uint8_t>(8 * bytes);
  if (std::string_view("efd").find(format[0]) != std::string_view::npos) return DLDataType{2, bits, 1};
  if (std::string_view("bhilqn").find(format[0]) != std::string_view::npos) return DLDataType{0, bits, 1};
  if (std::string_view("BHILQN?").find(format[0]) != std::string_view::npos) return DLDataType{1, bits, 1};
  return std::nullopt;
}

StridedArray from_buffer(py::handle array, const std::string& name) {
  const py::buffer buffer = py::reinterpret_borrow<py::buffer>(array);
  auto info = std::make_shared<py::buffer_info>(buffer.request());
  const std::optional<DLDataType> type = type_of_format(info->format, info->itemsize);
  if (!type) throw_error("{} has elements of the format '{}'; numbers expected", name, info->format);
  StridedArray result{.data = static_cast<const std::byte*>(info->ptr), .type = *type};
  result.shape.assign(info->shape.begin(), info->shape.end());
  result.strides.assign(info->strides.begin(), info->strides.end());
  result.keeps = py::capsule(new std::shared_ptr<py::buffer_info>(info),
                             [](void* held) { delete static_cast<std::shared_ptr<py::buffer_info>*>(held); });
  return result;
}

StridedArray from_dlpack(py::handle array, const std::string& name) {
  const auto [device, number] = array.attr("__dlpack_device__")().cast<std::pair<int, int>>();
  if (device != kDLCpu)
    throw_error("{} is in the memory of device {} of kind {}; move it to the CPU first, e.g. by .cpu()", name,
                number, device);
  py::object capsule = array.attr("__dlpack__")();
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw py::error_already_set();
  const DLTensor& tensor = managed->dl_tensor;
  const int64_t item = tensor.dtype.bits / 8;
  StridedArray result{.data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset,
                      .type = tensor.dtype};
  result.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  result.strides.resize(result.shape.size());
  int64_t dense = item;
  for (int dim = tensor.ndim - 1; dim >= 0; --dim) {
    const auto d = static_cast<size_t>(dim);
    result.strides[d] = tensor.strides ? tensor.strides[dim] * item : dense;
    dense *= result.shape[d];
  }
  result.keeps = std::move(capsule);  // which frees what nobody takes out of it
  return result;
}

StridedArray strided(py::handle array, const std::string& name) {
  if (PyObject_CheckBuffer(array.ptr()) != 0) return from_buffer(array, name);
  if (py::hasattr(array, "__dlpack__")) return from_dlpack(array, name);
  throw_error(
      "{} is of type {}; an array with the buffer protocol or __dlpack__ expected (numpy.asarray makes one)",
      name, std::string(py::str(py::type::of(array).attr("__name__"))));
}

// Calls `run` with a value of the type that the array's elements have.
template <typename Run>
void with_element(const DLDataType& type, const std::string& name, const Run& run) {
  if (type.lanes == 1) {
    const auto is = [&](int code, int bits) { return type.code == code && type.bits == bits; };
    if (is(2, 64)) return run(double());
    if (is(2, 32)) return run(float());
    if (is(2, 16)) return run(F16());
    if (is(4, 16)) return run(Bf16());
    if (is(0, 64)) return run(int64_t());
    if (is(0, 32)) return run(int32_t());
    if (is(0, 16)) return run(int16_t());
    if (is(0, 8)) return run(int8_t());
    if (is(1, 64)) return run(uint64_t());
    if (is(1, 32)) return run(uint32_t());
    if (is(1, 16)) return run(uint16_t());
    if (is(1, 8) || is(6, 8)) return run(uint8_t());
  }
  throw_error("{} has elements of {} bits of kind {}, which are not read; convert them first", name,
              type.bits, type.code);
}

template <typename T>
inline constexpr bool is_half = std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;

template <typename To, typename From>
To converted(From value, const std::string& name) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_integral_v<To>) {
    if constexpr (std::is_integral_v<From>) {
      if (!std::in_range<To>(value))
        throw_error("{} has {}, which is no {}", name, value, trireme::name(dtype_of<To>));
      return static_cast<To>(value);
    } else {
      throw_error("{} has floating-point numbers; {} expected", name, trireme::name(dtype_of<To>));
    }
  } else if constexpr (is_half<From>) {
    return converted<To>(static_cast<float>(value), name);
  } else if constexpr (is_half<To>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename From>
void copy_elements(const StridedArray& from, size_t dim, const std::byte* at, To*& to,
                   const std::string& name) {
  if (dim == from.shape.size()) {
    From value;
    std::memcpy(&value, at, sizeof value);
    *to++ = converted<To>(value, name);
    return;
  }
  const bool inner = dim + 1 == from.shape.size();
  if (inner && std::is_same_v<To, From> && from.strides[dim] == static_cast<int64_t>(sizeof(From))) {
    std::memcpy(static_cast<void*>(to), at, static_cast<size_t>(from.shape[dim]) * sizeof(From));
    to += from.shape[dim];
    return;
  }
  for (int64_t i = 0; i < from.shape[dim]; ++i)
    copy_elements<To, From>(from, dim + 1, at + i * from.strides[dim], to, name);
}

void copy(const StridedArray& from, const std::string& name, HostTensor& to) {
  const auto copy_as = [&](auto to_value) {
    using To = decltype(to_value);
    with_element(from.type, name, [&](auto from_value) {
      To* next = to.values<To>().data();
      copy_elements<To, decltype(from_value)>(from, 0, from.data, next, name);
    });
  };
  switch (to.dtype) {
    case DType::f64:
      return copy_as(double());
    case DType::f32:
      return copy_as(float());
    case DType::f16:
      return copy_as(F16());
    case DType::bf16:
      return copy_as(Bf16());
    case DType::i64:
      return copy_as(int64_t());
    case DType::i32:
      return copy_as(int32_t());
    case DType::u8:
      return copy_as(uint8_t());
  }
}

DLDataType dl_type(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * size_of(dtype));
  if (dtype == DType::bf16) return {4, bits, 1};
  return {static_cast<uint8_t>(is_float(dtype) ? 2 : dtype == DType::u8 ? 1 : 0), bits, 1};
}

// What a capsule of ours keeps alive.
struct Lent {
  Tensor tensor;
  std::vector<int64_t> shape;
  DLManagedTensor managed;
};

void free_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // somebody has taken it, and frees it
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

py::object dlpack_of(const Tensor& tensor, const py::kwargs&) {
  auto* lent = new Lent{tensor, {tensor.view.shape.begin(), tensor.view.shape.end()}, {}};
  lent->managed = {.dl_tensor = {.data = tensor.view.data,
                                 .device = {kDLCpu, 0},
                                 .ndim = static_cast<int32_t>(lent->shape.size()),
                                 .dtype = dl_type(tensor.view.dtype),
                                 .shape = lent->shape.data(),
                                 .strides = nullptr,
                                 .byte_offset = 0},
                   .manager_ctx = lent,
                   .deleter = [](DLManagedTensor* self) { delete static_cast<Lent*>(self->manager_ctx); }};
  return py::reinterpret_steal<py::object>(PyCapsule_New(&lent->managed, "dltensor", free_capsule));
}

py::buffer_info buffer_of(const Tensor& tensor) {
  static constexpr std::pair<DType, const char*> kFormats[] = {{DType::f64, "d"}, {DType::f32, "f"},
                                                               {DType::f16, "e"}, {DType::i64, "q"},
                                                               {DType::i32, "i"}, {DType::u8, "B"}};
  for (const auto& [dtype, format] : kFormats) {
    if (dtype != tensor.view.dtype) continue;
    const std::vector<int64_t> shape(tensor.view.shape.begin(), tensor.view.shape.end());
    std::vector<py::ssize_t> strides(shape.size());
    auto stride = static_cast<py::ssize_t>(size_of(dtype));
    for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim]) strides[dim] = stride;
    return {tensor.view.data,
            static_cast<py::ssize_t>(size_of(dtype)),
            format,
            static_cast<py::ssize_t>(shape.size()),
            shape,
            strides,
            /*readonly=*/true};
  }
  TRIREME_CHECK(false);  // get_buffer() lets no other format through
  return {};
}

// In the place of pybind11's, through which no exception may pass.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (py::cast<const Tensor&>(py::handle(self)).view.dtype != DType::bf16)
    return py::detail::pybind11_getbuffer(self, view, flags);
  PyErr_SetString(PyExc_BufferError,
                  "bf16 has no buffer protocol; use numpy(), which converts it to f32, or torch.from_dlpack");
  return -1;
}

// numpy is asked for here alone.
py::object numpy_of(const py::object& self) {
  const auto& tensor = self.cast<const Tensor&>();
  const py::module_ numpy = py::module_::import("numpy");
  if (tensor.view.dtype != DType::bf16) return numpy.attr("asarray")(self);
  std::vector<float> values;
  const auto* bits = static_cast<const Bf16*>(tensor.view.data);
  for (int64_t i = 0; i < tensor.view.elements(); ++i) values.push_back(static_cast<float>(bits[i]));
  return numpy.attr("asarray")(py::cast(own_tensor(std::move(values), tensor.view.shape)));
}

}  // namespace

void copy_array(py::handle array, const std::string& name, HostTensor& to) {
  const StridedArray from = strided(array, name);
  if (from.shape != std::vector<int64_t>(to.shape.begin(), to.shape.end()))
    throw_error("{} has the shape {}; {} expected", name, to_string(shape_of(from.shape)),
                to_string(to.shape));
  copy(from, name, to);
}

HostTensor tensor_of(py::handle array, const std::string& name, DType dtype) {
  const StridedArray from = strided(array, name);
  HostTensor result;
  result.reset(dtype, shape_of(from.shape));
  copy(from, name, result);
  return result;
}

Tensor own_tensor(std::vector<float> values, const Shape& shape) {
  const auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return {owner, {owner->data(), DType::f32, shape}};
}

void bind_arrays(py::module_& module) {
  py::class_<Tensor> tensor_class(
      module, "Tensor", py::buffer_protocol(),
      "Numbers in memory, for numpy.asarray, numpy.from_dlpack, torch.from_dlpack and memoryview.");
  tensor_class.def_buffer(&buffer_of)
      .def_property_readonly("shape", [](const Tensor& tensor) { return tuple_of(tensor.view.shape); })
      .def_property_readonly("dtype",
                             [](const Tensor& tensor) { return std::string(name(tensor.view.dtype)); })
      .def("numpy", &numpy_of, "As an array of numpy over the same memory; bf16 is converted to f32.")
      .def("__dlpack__", &dlpack_of)
      .def("__dlpack_device__", [](const Tensor&) { return py::make_tuple(kDLCpu, 0); })
      .def("__len__",
           [](const Tensor& tensor) {
             if (tensor.view.shape.rank() == 0) throw py::type_error("len() of a scalar");
             return tensor.view.shape[0];
           })
      .def("__repr__", [](const Tensor& tensor) {
        return fmt::format("Tensor({}{})", name(tensor.view.dtype), to_string(tensor.view.shape));
      });
  reinterpret_cast<PyHeapTypeObject*>(tensor_class.ptr())->as_buffer.bf_getbuffer = get_buffer;
}

}  // namespace trireme::python

// Data of the program's own: arrays that are copied once and need no Python afterwards, or an object of
// Python that makes one sample at a time, which the loader's thread asks a few batches ahead.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "python/arrays.h"
#include "python/python_data.h"
#include "trireme/base/error.h"

namespace trireme::python {
namespace {

// What both have of a model: the tensors of a batch, and rows that count for nothing.
class OwnData : public DataSet {
 public:
  explicit OwnData(const ModelRecord& model)
      : model_(model.family), tensors_(model.inputs), has_targets_(model.logits != nullptr) {}
  std::span<const SampleTensor> tensors() const override { return tensors_; }

  void write_padding(int64_t row, Batch& batch) const override {
    if (!has_targets_)
      throw_error(
          "{} samples do not fill whole batches, and what of a sample of {} counts for nothing only its loss knows; hold "
          "out a multiple of the batch's rows",
          size(), model_);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      HostTensor& tensor = batch.tensors[i].second;
      const size_t bytes = row_bytes(i);
      std::memset(tensor.bytes.data() + static_cast<size_t>(row) * bytes, 0, bytes);
    }
    std::ranges::fill(batch.tensors[1].second.row<int32_t>(row), kIgnoreTarget);
  }

 protected:
  size_t row_bytes(size_t tensor) const {
    return static_cast<size_t>(tensors_[tensor].row.elements()) * size_of(tensors_[tensor].dtype);
  }

  std::string model_;
  std::vector<SampleTensor> tensors_;
  bool has_targets_;
};

class ArrayData : public OwnData {
 public:
  ArrayData(const ModelRecord& model, const py::dict& arrays) : OwnData(model) {
    for (const SampleTensor& tensor : tensors_) {
      if (!arrays.contains(tensor.name))
        throw_error("the data has no '{}', which is an input of {}", tensor.name, model_);
      arrays_.push_back(tensor_of(arrays[py::str(tensor.name)], tensor.name, tensor.dtype));
      const Shape& shape = arrays_.back().shape;
      if (shape.rank() == 0 || shape.slice(1, shape.rank()) != tensor.row)
        throw_error("'{}' has the shape {}; samples of {} expected", tensor.name, to_string(shape),
                    to_string(tensor.row));
      if (shape[0] != arrays_[0].shape[0])
        throw_error("'{}' has {} samples, and '{}' has {}", tensor.name, shape[0], tensors_[0].name, size());
    }
    if (size() == 0) throw_error("the data of {} has no samples", model_);
  }
  int64_t size() const override { return arrays_[0].shape[0]; }
  void write(int64_t, int64_t index, int64_t row, Batch& batch) const override {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const size_t bytes = row_bytes(i);
      std::memcpy(batch.tensors[i].second.bytes.data() + static_cast<size_t>(row) * bytes,
                  arrays_[i].bytes.data() + static_cast<size_t>(index) * bytes, bytes);
    }
  }

 private:
  std::vector<HostTensor> arrays_;
};

class PythonData : public OwnData {
 public:
  PythonData(const ModelRecord& model, py::object samples, std::shared_ptr<FailureKeeper> failures)
      : OwnData(model),
        samples_(std::move(samples)),
        size_(static_cast<int64_t>(py::len(samples_))),
        failures_(std::move(failures)) {
    if (size_ == 0) throw_error("the data of {} has no samples", model_);
  }
  ~PythonData() override {
    const py::gil_scoped_acquire gil;
    samples_ = py::object();
  }
  int64_t size() const override { return size_; }

  void write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const override {
    const py::gil_scoped_acquire gil;
    try {
      const py::object sample = samples_.attr("sample")(index, epoch);
      for (size_t i = 0; i < tensors_.size(); ++i) {
        const py::str name(tensors_[i].name);
        HostTensor one;
        one.reset(tensors_[i].dtype, tensors_[i].row);
        copy_array(as_array(sample[name]), fmt::format("'{}' of sample {}", tensors_[i].name, index), one);
        const size_t bytes = row_bytes(i);
        std::memcpy(batch.tensors[i].second.bytes.data() + static_cast<size_t>(row) * bytes, one.bytes.data(),
                    bytes);
      }
    } catch (const py::error_already_set& error) {
      if (failures_->keep) failures_->keep(std::current_exception());
      throw_error("sample {} of epoch {} could not be made: {}", index, epoch, error.what());
    }
  }

 private:
  // A label may be a plain number.
  static py::object as_array(const py::object& value) {
    if (PyObject_CheckBuffer(value.ptr()) != 0 || py::hasattr(value, "__dlpack__")) return value;
    const bool whole = py::isinstance<py::int_>(value);
    if (!whole && !py::isinstance<py::float_>(value)) return value;
    if (whole) {
      const auto owner = std::make_shared<int64_t>(value.cast<int64_t>());
      return py::cast(Tensor{owner, {owner.get(), DType::i64, {}}});
    }
    const auto owner = std::make_shared<double>(value.cast<double>());
    return py::cast(Tensor{owner, {owner.get(), DType::f64, {}}});
  }

  py::object samples_;
  int64_t size_;
  std::shared_ptr<FailureKeeper> failures_;
};

std::shared_ptr<const DataSet> data_set(const ModelRecord& model, const py::object& samples,
                                        const std::shared_ptr<FailureKeeper>& failures) {
  if (samples.is_none()) return nullptr;
  if (py::isinstance<py::dict>(samples)) return std::make_shared<ArrayData>(model, samples.cast<py::dict>());
  if (py::hasattr(samples, "sample") && py::hasattr(samples, "__len__"))
    return std::make_shared<PythonData>(model, samples, failures);
  throw_error("the data is {}; a trireme.DataSet or a dict of arrays expected",
              std::string(py::repr(samples)));
}

}  // namespace

OpenedData DataHolder::open() const {
  return {.kind = "own",
          .train = train,
          .validation = validation,
          .summary = fmt::format("{} samples of the program's own", train->size())};
}

void bind_data(py::module_& module) {
  py::class_<DataHolder>(module, "_Data")
      .def(py::init([](const OwnModel& model, const py::object& train, const py::object& validation) {
             DataHolder data;
             data.train = data_set(model.record, train, data.failures);
             if (!data.train) throw_error("{} has no data to train on", model.record.family);
             data.validation = data_set(model.record, validation, data.failures);
             return data;
           }),
           py::arg("model"), py::arg("train"), py::arg("validation") = py::none());
}

}  // namespace trireme::python

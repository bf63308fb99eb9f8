// Tensors of one safetensors file, or of several with an index beside them (tensor_index.h): ours, whose
// tensors may be in parts, and those that other tools write.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/checkpoint/safetensors.h"
#include "trireme/checkpoint/tensor_index.h"

namespace trireme {

class TensorFiles {
 public:
  // `path`: a safetensors file, or an index in JSON. Reads and validates all headers. Throws Error.
  explicit TensorFiles(const std::string& path);

  struct Tensor {
    std::string name;
    std::string format;  // "F32"
    std::optional<DType> dtype;
    Shape shape;           // of the whole
    bool of_base = false;  // see add_base(): read_all() widens it
    struct Source {
      size_t file;
      const StoredTensor* stored;
      TensorPart part;
    };
    std::vector<Source> sources;

    uint64_t bytes() const;
  };

  // The name that a tensor is to have; none: it is left out.
  using Naming = std::function<std::optional<std::string>(const std::string& name)>;
  void rename(const Naming& naming);
  // Adds the tensors of other files whose names are not here yet: those of weights that these belong to.
  void add_base(TensorFiles base, const Naming& naming);

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // by name; of one file as they lie in it
  const Tensor* find(std::string_view name) const;                 // null when there is none

  // Fills the parts, of which several may be of one tensor, reading nothing else. Format and shape must be
  // the same, and there must be these tensors and no others but those whose names begin with `passed_over`,
  // where that is not ""; the Error names the differences, and nothing is read then.
  void read_all(std::span<const PartView> parts, std::string_view passed_over = "") const;
  void read_all(std::span<const NamedTensor> tensors) const;

  // Fills one part from a tensor of this object with the same shape. Formats may differ where `widens` says
  // so.
  void read(const Tensor& tensor, const PartView& to) const;
  // Whether a tensor of this format is read as f32 without loss: f32 itself, and the 16-bit formats.
  static bool widens(const Tensor& tensor);

 private:
  void open_index();
  void read_run(const Tensor::Source& source, DType format, int64_t from, const TensorView& to, int64_t at,
                int64_t elements) const;

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<Tensor> tensors_;
};

}  // namespace trireme

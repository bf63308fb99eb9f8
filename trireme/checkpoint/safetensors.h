// Reading and writing of safetensors files. Neither side holds a copy of the data: the writer streams from
// the tensors (through a small buffer where they are not in host memory), the reader fills memory that the
// caller owns.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/tensor_view.h"
#include "trireme/checkpoint/file_io.h"
#include "trireme/checkpoint/safetensors_header.h"
#include "trireme/checkpoint/tensor_part.h"

namespace trireme {

struct NamedTensor {
  std::string name;
  TensorView view;  // as in PartView
  TensorReach reach = {};
};

class SafetensorsFile {
 public:
  // Reads and validates the header. Throws Error.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }  // in the order of their data
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const StoredTensor* find(std::string_view name) const;  // null when there is none

  // Copies one tensor to `to`, which has room for tensor.bytes().
  void read(const StoredTensor& tensor, void* to) const;
  // The same for bytes [offset, offset + bytes) of it.
  void read(const StoredTensor& tensor, uint64_t offset, void* to, size_t bytes) const;

 private:
  FileReader file_;
  uint64_t data_offset_ = 0;
  SafetensorsHeader header_;
};

using Metadata = std::map<std::string, std::string>;

// Writes the tensors, widest format first and then by name, so that each is aligned to its elements; the
// file is on the disk when this returns. Throws Error on equal names and when writing fails, which leaves
// an incomplete file behind. With `data`, the contents are where that says, until it is asked for the next
// tensor, and not where the views do.
using TensorData = std::function<const void*(const NamedTensor&)>;
FileDigest write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                             const Metadata& metadata = {}, const TensorData& data = nullptr);

}  // namespace trireme

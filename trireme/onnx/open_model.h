// ONNX files that models are made of. Each is read once while anybody uses it, however many ranks there are
// in the process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "trireme/onnx/file.h"

namespace trireme::onnx {

// The attribute `init` of states that start with a tensor of an ONNX file: `file`, `tensor`.
inline constexpr std::string_view kInFile = "in_file";

// What a tensor of a file is called as a state: ONNX's names have characters that ours do not.
std::string state_name(std::string name);

class OpenModel {
 public:
  explicit OpenModel(const std::string& path) : file_(read_file(path)) {}

  const File& file() const { return *file_; }
  // A constant that importing made. Its name is a function of its elements, so it may be kept again.
  void keep(const std::string& name, const Tensor& constant);
  // Elements of an initializer, or of a constant that was kept. Throws an Error when there is neither.
  void read(const std::string& name, int64_t first, std::span<float> values) const;

 private:
  std::shared_ptr<const File> file_;
  mutable std::mutex mutex_;
  std::map<std::string, Tensor> constants_;
};

// Kept in memory by whoever holds the result, and the last one until another is opened: programs are made of
// it before their states are filled from it. Throws as read_file() does.
std::shared_ptr<OpenModel> open_model(const std::string& path);

}  // namespace trireme::onnx

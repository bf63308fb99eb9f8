// A trained model as an ONNX file: the file that it was made of, with other weights.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/onnx/file.h"

namespace trireme::onnx {

// The bytes of `file` with the values that `values` gives for its float32 initializers (none: they stay),
// with external data inside, and with `metadata` added. It is for inference: batch norms take running
// statistics and nothing is dropped. Throws an Error where the result would be larger than ONNX files can be.
std::string with_values(const File& file,
                        const std::function<std::optional<std::vector<float>>(const StoredTensor&)>& values,
                        const std::map<std::string, std::string>& metadata);

}  // namespace trireme::onnx

// Cases of the ONNX project: a folder each, with a model, inputs, and the outputs that are expected. They say
// which ops of ONNX can be imported, and that none of these gives wrong numbers.
#pragma once

#include <string>
#include <vector>

#include "trireme/runtime/device.h"

namespace trireme::bench {

struct OnnxCase {
  std::string name;              // folder and folder above it: node/test_abs
  std::vector<std::string> ops;  // of its nodes, without repetition
  enum class Outcome {
    kPasses,   // computed by kernels
    kFolds,    // everything is known when the graph is imported, and right
    kRefused,  // `op` says why: the op that can not be imported
    kWrong
  } outcome = Outcome::kRefused;
  std::string op, message;
};

// The folders below `folder` (or itself) that have a model.onnx and a test_data_set_0, in alphabetical order.
std::vector<std::string> find_onnx_cases(const std::string& folder);

// Real numbers that come with a case are inputs of the graph; integers and truth values, and numbers that an
// op must know (a shape, an exponent), are known when it is imported, as they are in models.
OnnxCase run_onnx_case(const std::string& folder, Device& device);

// The part of docs/onnx.md that says what can be imported, from the cases in `folder`.
std::string onnx_coverage(const std::vector<OnnxCase>& cases);

}  // namespace trireme::bench

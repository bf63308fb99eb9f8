// From the nodes of an ONNX file to ops of ours.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/onnx/emitter.h"
#include "trireme/onnx/file.h"

namespace trireme::onnx {

// An op that can not be imported, or not in this form. The message names file, node, op and reason.
class Refusal : public Error {
 public:
  Refusal(const std::string& op, const std::string& message) : Error(message), op(op) {}
  std::string op;
};

// Adds the graph of the file to what `emitter` builds. `inputs` has all inputs of the graph, by name. Returns
// all outputs of the nodes that were imported, by name; `wanted` are those that must be among them, and nodes
// that none of these needs are left out.
// Throws Refusal, or ConstantNeeded where giving an input as a known tensor would help.
std::map<std::string, Value> import_graph(const File& file, Emitter& emitter,
                                          const std::map<std::string, Value>& inputs,
                                          const std::vector<std::string>& wanted);

// The ops of ONNX that can be imported, in alphabetical order.
std::vector<std::string> imported_ops();

// Opsets of the standard domain that are read.
inline constexpr int64_t kOldestOpset = 1, kNewestOpset = 23;

}  // namespace trireme::onnx

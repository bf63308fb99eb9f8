// map: element-wise ops done as one (ir/map_code.h). Inputs have the shape of the results, or repeat as a
// suffix of it does: a bias, a scalar.
#include <algorithm>

#include "trireme/ir/map_code.h"
#include "trireme/ops/records.h"

namespace trireme {
namespace {

MapCode code_of(const OpInstance& op) {
  return MapCode::of(op.attrs, static_cast<int>(op.inputs.size()));
}

// "i2 i3": the last `count` of `rank` indices.
std::string last_names(int rank, int count) {
  std::string names;
  for (int i = rank - count; i < rank; ++i) names += fmt::format("{}i{}", names.empty() ? "" : " ", i);
  return names;
}

IndexRule index(const OpInstance& op) {
  const MapCode code = code_of(op);
  int rank = 0;
  for (const TensorType& type : op.inputs) rank = std::max(rank, type.shape.rank());
  std::string text;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    text += fmt::format("x{}[{}] ", i, last_names(rank, op.inputs[i].shape.rank()));
  for (const MapCode::Instruction& one : code.instructions) {
    const int first = one.operands[0];
    if (first < code.inputs && op.shape(first).rank() < rank)
      throw_error("[map] {} repeats its first operand, {}; only others may be smaller than the results",
                  one.op, to_string(op.shape(first)));
  }
  text += "->";
  for (size_t i = 0; i < code.results.size(); ++i) text += fmt::format(" y{}[{}]", i, last_names(rank, rank));
  return rule(op, WrittenRule(text));
}

double map_flops(const OpInstance& op, const IndexRule& rule) {
  return rule.volume() * static_cast<double>(code_of(op).instructions.size());
}

}  // namespace

void add_map(OpTable& table) {
  OpRecord record{.name = "map", .index = index, .gradient = kDeviceOp, .flops = map_flops};
  for (int output = 0; output < kMostMapResults; ++output) {
    for (int input = 0; input < kMostMapInputs; ++input) record.in_place.push_back({output, input});
  }
  table.add(std::move(record));
}

}  // namespace trireme

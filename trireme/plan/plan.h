// Plan: how a training step is spread over ranks. A file in JSON, or the name of a preset for all ranks:
//
//   {"mesh": "data:2 tensor:4", "preset": "megatron+zero1"}
//
// | preset   | axis   | what it splits |
// | data     | data   | the batch; gradients are added up once a step |
// | zero1    | data   | and the optimizer's states |
// | zero2    | data   | and gradients, each microbatch adding to its parts |
// | zero3    | data   | and weights at rest, gathered for the forward part and again for the backward part |
// | megatron | tensor | attention by heads, feed-forward layers by columns and then rows |
//
// `megatron` joins with one of the others by +. All of them are layouts (passes/pins.h); nothing else knows
// of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/mesh/layout.h"
#include "trireme/mesh/mesh.h"

namespace trireme {

struct Plan {
  Mesh mesh;  // no axes: one rank
  std::string preset = "data";

  bool has(std::string_view part) const;  // whether it is one of the preset's parts
};

std::vector<std::string> preset_plans();

// `text`: the name of a preset that needs one axis, which gets all ranks; or the path of a file. Throws
// Error for unknown keys, presets and axes, and when the mesh has another number of ranks.
Plan read_plan(const std::string& text, int ranks);
Plan parse_plan(std::string_view json, std::string_view source);
std::string to_json(const Plan& plan);

}  // namespace trireme

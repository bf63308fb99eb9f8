// Plan: how a training step is spread over ranks. A file in JSON, or the name of a preset for all ranks:
//
//   {"mesh": "data:4", "preset": "zero1"}
//
// | preset | over the axis `data` |
// | data   | the batch is split, everything else replicated; gradients are added up once a step |
// | zero1  | and the optimizer's states are split |
// | zero2  | and gradients are split, each microbatch adding to its parts |
// | zero3  | and weights are split at rest, gathered for the forward part and again for the backward part |
//
// All of them are layouts; nothing else knows of them.
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
};

std::vector<std::string> preset_plans();

// `text`: the name of a preset, for a mesh of one axis `data` with all ranks; or the path of a file. Throws
// Error for unknown keys, presets and axes, and when the mesh has another number of ranks.
Plan read_plan(const std::string& text, int ranks);
Plan parse_plan(std::string_view json, std::string_view source);
std::string to_json(const Plan& plan);

}  // namespace trireme

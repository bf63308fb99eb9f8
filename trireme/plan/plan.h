// Plan: how a training step is spread over ranks. A file in JSON, or the name of a preset for all ranks:
//
//   {"mesh": "data:2 tensor:4", "preset": "megatron+zero1"}
//
//   preset      axis    what it splits
//   data        data    the batch; gradients are added up once a step
//   zero1       data    and the optimizer's states
//   zero2       data    and gradients, each microbatch adding to its parts
//   zero3       data    and weights at rest, gathered for the forward part and again for the backward part
//   megatron    tensor  attention by heads, feed-forward layers by columns and then rows, the vocabulary
//   sequence    tensor  with megatron: what lies between those, along the sequence
//   hybrid_cnn  tensor  the batch for convolutions, features for fully connected layers
//
// One over each axis, joined by +. All of them are layouts (passes/pins.h); nothing else knows of them.
// docs/plans.md has all keys.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/mesh/layout.h"
#include "trireme/mesh/mesh.h"

namespace trireme {

struct Plan {
  Mesh mesh;  // no axes: one rank
  std::string preset = "data";
  // How single values lie, over what the preset says: a pattern of names (fits_pattern) and a layout.
  // The first that fits a name counts. A parameter takes its gradient and the optimizer's states with it.
  std::vector<std::pair<std::string, Layout>> layouts = {};
  // What the file says of these beats a setting's default; two values that differ are refused
  // (train/config.h).
  std::optional<int64_t> accumulate = {};     // microbatches of a step
  std::optional<std::string> precision = {};  // f32, bf16, f16
  // Over how many rows batch normalisation takes its statistics: all of a microbatch, or those of a rank.
  enum class BatchNorm { kSynchronised, kLocal } batch_norm = BatchNorm::kSynchronised;
  // An algorithm of comm/ for the collectives along an axis; automatic where an axis is not named.
  std::map<std::string, std::string, std::less<>> algorithms = {};

  bool has(std::string_view part) const;  // whether it is one of the preset's parts
  // What `layouts` says of a value, if anything.
  const Layout* layout_of(std::string_view name) const;
};

std::vector<std::string> preset_plans();

// `text`: a preset that needs one axis, which gets all ranks; or the path of a file. Throws Error for unknown
// keys, presets and axes, and when the mesh has another number of ranks. 0 ranks: as many as the file says.
Plan read_plan(const std::string& text, int ranks);
Plan parse_plan(std::string_view json, std::string_view source);
std::string to_json(const Plan& plan);

// Whether a name fits a pattern in which * stands for any text without a /: h.*.weight is weights of all
// blocks, h.*/attn/* what is made in their attention.
bool fits_pattern(std::string_view pattern, std::string_view name);

}  // namespace trireme

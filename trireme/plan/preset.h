// The presets as rows of a table: what the ranks along an axis have of a step's states, and what they share
// of its work. passes/pins.h makes layouts of it; there is no other code for a preset.
//
//   preset      axis    what it splits
//   data        data    the batch; gradients are added up once a step
//   zero1       data    and the optimizer's states
//   zero2       data    and gradients, each microbatch adding to its parts
//   zero3       data    and weights at rest, gathered for the forward part and again for the backward part
//   replica     replica the batch alone, whatever is split over data
//   expert      expert  the batch; experts of a mixture, to which tokens are sent
//   megatron    tensor  attention by heads, feed-forward layers by columns and then rows, the vocabulary
//   sequence    tensor  with megatron: what lies between those, along the sequence
//   context     context sequences; attention gathers keys and values
//   striped     context with context: each rank has stripes of the sequence, not one run of it
//   ring        context sequences, in stripes; attention passes keys and values round
//   ulysses     context sequences; attention exchanges them for heads
//   hybrid_cnn  tensor  the batch for convolutions, features for fully connected layers
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// What a rank has of a state that the ranks along an axis keep together.
enum class Share : uint8_t {
  kWhole,   // all of it, as each of them
  kPart,    // a part of its own; where no dim can be split, all of it (of a gradient: as under `data`)
  kAddend,  // what its own rows give; the sum is still to be made
};

// At rest: from segment to segment. In use: in the forward and backward parts, and in evaluation.
struct Shares {
  Share at_rest, in_use, in_update;
};

// Of everything that goes with a parameter, by role.
struct StateShares {
  Shares parameter, optimizer;
  Shares gradient;         // of several microbatches, which are added to one another
  Shares gradient_of_one;  // of one, which may be added up over ranks as it is made
};

// Which part of a parameter, with its gradient and moments, each rank along the axis works on.
enum class Weights : uint8_t {
  kWhole,
  kFeatures,              // the one that the parameter says (tensor_dim): heads, columns, rows of a table
  kFeaturesAndPositions,  // likewise, and of tables of positions some positions (tensor_sequence_dim)
  kExperts,               // some experts (expert_dim)
  kPositions,             // of tables of positions some (tensor_sequence_dim)
};

// What a sum of activations over the ranks of the axis may be split along as it is made.
enum class Scatter : uint8_t { kNothing, kSequence, kRows };

// Whether sequences are split over the axis from the start, and how attention gets on with it.
enum class Sequences : uint8_t {
  kWhole,
  kQueries,  // attention computes its part of the queries, with all keys and values
  kHeads,    // attention computes some heads, of all positions
  kRing,     // attention computes its part of the queries, with one part of the keys and values after another
};

// Which positions a rank has where sequences are split: one run of them, or stripes from everywhere, which
// under a causal mask see as many keys as those of any other rank.
enum class Dealt : uint8_t { kRuns, kStripes };

struct Preset {
  std::string_view name, axis;
  std::string_view changes = "";                          // the preset that it goes with, and stands in for
  enum class Rows { kSame, kShared } rows = Rows::kSame;  // of a batch
  Weights weights = Weights::kWhole;
  Scatter scatter = Scatter::kNothing;
  Sequences sequences = Sequences::kWhole;
  std::optional<StateShares> states = {};  // nothing is shared beyond `weights` where there are none
  Dealt dealt = Dealt::kRuns;              // of sequences
};

const Preset* find_preset(std::string_view name);  // null when there is none

// All that a plan may name, with what they go with: "data", …, "megatron+sequence".
std::vector<std::string> preset_plans();

// The axes that presets joined by + spread over. Throws Error for one that does not exist, that goes with
// another which is missing, and for two over one axis.
std::vector<std::string> preset_axes(const std::string& joined, std::string_view source);

}  // namespace trireme

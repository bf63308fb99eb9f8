// What a state, an input or an output of a graph is for. Plans, schedules, checkpoints and comparisons go by
// it, never by a name.
#pragma once

#include <optional>
#include <string_view>

namespace trireme {

enum class Role {
  kNone,  // nobody asks; and every result
  // States.
  kParameter,  // trained
  kBuffer,     // of the model but not trained: running statistics
  kMaster,     // of a 16-bit parameter: its f32 form, which the optimizer works on and checkpoints keep
  kOptimizer,  // moments and velocities
  kResidual,   // what a method of exchange keeps of gradients: parts not sent yet, velocities
  kGradient,   // what microbatches add up for the update
  kPending,    // what a buffer becomes if the step is not skipped
  kMessage,    // what goes to other ranks as it is, and what came from them: for a step, or less
  kCache,      // keys and values of tokens that were read
  kVersion,    // what a parameter was before one of the last updates, for microbatches that began with it
  kStash,      // what a segment leaves of a microbatch for a later one, on this rank or another
  // Inputs.
  kBatch,   // a row for each sample
  kRng,     // which random numbers are drawn
  kScalar,  // one number, the same on all ranks
};

// Whether a state lasts from step to step, so that a run can go on from it.
constexpr bool is_lasting(Role role) {
  return role == Role::kParameter || role == Role::kBuffer || role == Role::kMaster ||
         role == Role::kOptimizer || role == Role::kResidual;
}

enum class OutputRole {
  kWhole,   // the same on all ranks
  kAddend,  // each rank has what its rows add to it
  kRows,    // a row for each sample: each rank has those of its rows
  // Addends too, of a training step: beside the loss, part of what gradients are of; and of a layer's experts
  // how many tokens chose each, how many found no slot, and the scores that each was given.
  kObjective,
  kLoad,
  kDropped,
  kImportance,
};
constexpr bool is_addend(OutputRole role) {
  return role != OutputRole::kWhole && role != OutputRole::kRows;
}

std::string_view name(Role role);  // "parameter"; "" for kNone
std::optional<Role> parse_role(std::string_view text);
std::string_view name(OutputRole role);  // "" for kWhole
std::optional<OutputRole> parse_output_role(std::string_view text);

}  // namespace trireme

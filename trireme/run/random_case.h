// Cases that nobody thought of: a model, its settings and a plan, drawn at random from what can be said to
// `trireme verify`. A case is plain text, so that one that fails can be run again by its command, whatever
// becomes of the drawing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/run/options.h"
#include "trireme/train/parity/reference.h"
#include "trireme/train/parity/verify.h"

namespace trireme::parity {

// What cases are drawn from.
struct CaseRanges {
  int max_ranks = 8;
  int64_t max_layers = 2;  // of models that have as many as one likes
  // "model.family" -> "gpt": these settings are not drawn.
  std::map<std::string, std::string, std::less<>> fixed = {};
};

struct RandomCase {
  std::string family, precision;      // also in `settings`, for tables
  Shape image;                        // [channels, height, width]; empty for tokens
  std::vector<std::string> settings;  // "model.family=gpt", as on the command line
  std::string plan;                   // JSON in one line
  std::string exchange = {};          // the method in it; "": dense
};

// A function of its arguments. `number` counts the cases of a seed.
RandomCase draw_case(uint64_t seed, uint64_t number, const CaseRanges& ranges);

// What one types to see it again.
std::string command_of(const RandomCase& drawn);

// Training on random batches in which some targets do not count. vocab or classes must be set; `sample` is
// that of StepShape.
Training random_training(const Config& config, const Shape& sample, int64_t steps);

// Steps that are compared of a random case; and of one in which ranks agree every few steps.
inline constexpr int64_t kCaseSteps = 2, kAgreeingCaseSteps = 5;
int64_t steps_of(const RandomCase& drawn);

// Draws its data, runs it and compares. Settings that do not fit together and plans that can not be are
// refused. Throws Error when ranks fail on the way.
Result verify_case(const RandomCase& drawn);

}  // namespace trireme::parity

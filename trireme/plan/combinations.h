// What goes with what: one table of pairs that do not, each with the reason. The plan reader and who builds
// programs refuse by it, the sweep of `trireme verify` draws by it, the planner searches by it, and
// docs/combinations.md is made of it. A pair that is in no row works.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme {

// What a plan asks for, a setting, the machine or the model. A row is of two that are not of one plan key.
enum class Feature {
  // The plan.
  kPipe,          // stages
  kOtherAxes,     // of several ranks, besides data
  kSplitTensors,  // anything but whole tensors on every rank
  kZero,          // zero1, zero2, zero3 over the ranks that agree: there is no axis replica
  kLayouts,
  kAsynchronous,  // schedule
  kChimera,
  kOffload,
  kOffloadedModel,  // weights or gradients
  kAlgorithm,
  kSynchronisedNorm,  // asked for
  kSharedBatch,       // axes besides data and replica split it too
  // How replicas agree.
  kExchange,    // anything but dense sums
  kHostMethod,  // a compressor that no GPU has kernels for
  kWarmUp,      // of a compressor
  kOwnMomentum,
  kOwnSteps,
  kOwnWeights,
  kOwnPace,  // mixed
  kServed,
  kServers,  // several
  // Settings.
  kShards,
  kF16,
  kHalfWeights,
  kHalfGradients,
  kNoiseScale,
  kAverages,
  kClipNorm,
  kMoments,  // of the optimizer
  kOwnSamples,
  kBadSteps,  // go on after them
  kNumbers,   // are counted
  kRecheck,   // gradients are made twice
  // The machine.
  kCuda,
  kNccl,
  // The model.
  kRunningStatistics,
  kConvolutions,
  kMegatron,
  kExperts,     // mixtures of experts
  kExpertAxis,  // several ranks along it
  kContextAxis,
  kReplicas,
  kStripes,  // of sequences
};
inline constexpr int kFeatures = static_cast<int>(Feature::kStripes) + 1;
std::string_view name(Feature feature);  // as people say it: "an axis pipe"

struct Combination {
  Feature one, other;
  std::string_view reason;  // and what would have to be built, or what to do instead
};
const std::vector<Combination>& combinations();

using Features = std::set<Feature>;
Features features_of(const Plan& plan);
// The first row that two of them are in; null where all go together.
const Combination* refused_by(const Features& features);
// Throws Error with that row. `source` is the plan's, where it is known.
void check_combinations(const Features& features, std::string_view source = "");

// docs/combinations.md.
std::string combinations_document();

}  // namespace trireme

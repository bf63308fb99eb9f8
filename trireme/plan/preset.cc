// The table; see preset.h for what its columns mean.
#include "trireme/plan/preset.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/mesh/mesh.h"

namespace trireme {
namespace {

using enum Share;

// clang-format off
//                      at rest  in use   in the update
constexpr StateShares kData{
    .parameter       = {kWhole,  kWhole,  kWhole},
    .optimizer       = {kWhole,  kWhole,  kWhole},
    .gradient        = {kAddend, kAddend, kWhole},
    .gradient_of_one = {kWhole,  kWhole,  kWhole}};
constexpr StateShares kZero1{
    .parameter       = {kWhole,  kWhole,  kPart},
    .optimizer       = {kPart,   kPart,   kPart},
    .gradient        = {kAddend, kAddend, kPart},
    .gradient_of_one = {kPart,   kPart,   kPart}};
constexpr StateShares kZero2{
    .parameter       = {kWhole,  kWhole,  kPart},
    .optimizer       = {kPart,   kPart,   kPart},
    .gradient        = {kPart,   kPart,   kPart},
    .gradient_of_one = {kPart,   kPart,   kPart}};
constexpr StateShares kZero3{
    .parameter       = {kPart,   kWhole,  kPart},
    .optimizer       = {kPart,   kPart,   kPart},
    .gradient        = {kPart,   kPart,   kPart},
    .gradient_of_one = {kPart,   kPart,   kPart}};

constexpr auto kShared = Preset::Rows::kShared;

constexpr Preset kPresets[] = {
    {.name = "data",  .axis = "data", .rows = kShared, .states = kData},
    {.name = "zero1", .axis = "data", .rows = kShared, .states = kZero1},
    {.name = "zero2", .axis = "data", .rows = kShared, .states = kZero2},
    {.name = "zero3", .axis = "data", .rows = kShared, .states = kZero3},
    {.name = "replica", .axis = kReplicaAxis, .rows = kShared},
    {.name = "expert", .axis = "expert", .rows = kShared, .weights = Weights::kExperts},
    {.name = "megatron", .axis = "tensor", .weights = Weights::kFeatures},
    {.name = "sequence", .axis = "tensor", .changes = "megatron", .weights = Weights::kFeaturesAndPositions,
     .scatter = Scatter::kSequence},
    {.name = "context", .axis = "context", .weights = Weights::kPositions, .scatter = Scatter::kSequence,
     .sequences = Sequences::kQueries},
    {.name = "striped", .axis = "context", .changes = "context", .weights = Weights::kPositions,
     .scatter = Scatter::kSequence, .sequences = Sequences::kQueries, .dealt = Dealt::kStripes},
    {.name = "ring", .axis = "context", .weights = Weights::kPositions, .scatter = Scatter::kSequence,
     .sequences = Sequences::kRing, .dealt = Dealt::kStripes},
    {.name = "ulysses", .axis = "context", .weights = Weights::kPositions, .scatter = Scatter::kSequence,
     .sequences = Sequences::kHeads},
    {.name = "hybrid_cnn", .axis = "tensor", .rows = kShared, .weights = Weights::kFeatures,
     .scatter = Scatter::kRows},
};
// clang-format on

}  // namespace

const Preset* find_preset(std::string_view name) {
  const auto found = std::ranges::find(kPresets, name, &Preset::name);
  return found == std::end(kPresets) ? nullptr : &*found;
}

std::vector<std::string> preset_plans() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    names.push_back(preset.changes.empty() ? std::string(preset.name)
                                           : fmt::format("{}+{}", preset.changes, preset.name));
  }
  return names;
}

std::vector<std::string> preset_axes(const std::string& joined, std::string_view source) {
  const std::vector<std::string> names = split(joined, '+');
  std::vector<std::string> axes;
  for (const std::string& name : names) {
    const Preset* part = find_preset(name);
    if (!part) throw_error("{}: there is no preset '{}'; {}", source, name, suggestion(name, preset_plans()));
    if (!part->changes.empty()) {
      if (std::ranges::find(names, part->changes) == names.end())
        throw_error("{}: '{}' goes with {} only; say \"{}+{}\"", source, name, part->changes, part->changes,
                    name);
      continue;
    }
    if (std::ranges::find(axes, part->axis) != axes.end())
      throw_error("{}: the preset '{}' says twice what to do over the axis '{}'", source, joined, part->axis);
    axes.emplace_back(part->axis);
  }
  return axes;
}

}  // namespace trireme

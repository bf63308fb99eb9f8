// See file_groups.h.
#include "trireme/program/file_groups.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

struct StagingSlots {
  int first, count;
};
// One that is computed with, one that comes and one that goes. Gradients of a microbatch only go.
constexpr StagingSlots kOptimizerSlots{0, 3}, kGradientSlots{3, 2}, kWeightSlots{5, 3};

void add(FileStateNames& groups, const StagingSlots& slots, std::string name,
         std::vector<std::string> states) {
  if (states.empty()) return;
  const auto others = std::ranges::count_if(groups, [&](const StatesInFile& group) {
    return group.slot >= slots.first && group.slot < slots.first + slots.count;
  });
  groups.push_back(
      {std::move(name), std::move(states), slots.first + static_cast<int>(others) % slots.count});
}

std::vector<std::string> states_of_chunk(const Graph& update, Role role, int chunk,
                                         const ChunksInFiles& chunks) {
  std::vector<std::string> names;
  for (const Value& value : update.values) {
    if (value.kind != Value::Kind::kState || value.role != role) continue;
    const auto of =
        chunks.of_parameter.find(role == Role::kParameter ? value.name : value.attrs.text("of", ""));
    if (of != chunks.of_parameter.end() && of->second == chunk) names.push_back(value.name);
  }
  return names;
}

}  // namespace

FileStateNames file_groups(const Plan::Offload& offload, const Graph& update,
                           const std::vector<UpdatePart>& parts, const ChunksInFiles& chunks) {
  FileStateNames groups;
  for (const UpdatePart& part : parts) add(groups, kOptimizerSlots, part.graph.name, part.states);
  for (int chunk = 0; chunk < chunks.chunks; ++chunk) {
    if (offload.weights)
      add(groups, kWeightSlots, fmt::format("weights.{}", chunk),
          states_of_chunk(update, Role::kParameter, chunk, chunks));
    if (!offload.gradients) continue;
    std::vector<std::string> gradients = states_of_chunk(update, Role::kGradient, chunk, chunks);
    for (const UpdatePart& part : parts) {
      if (part.chunk == chunk) gradients.insert(gradients.end(), part.kept.begin(), part.kept.end());
    }
    add(groups, kGradientSlots, fmt::format("gradients.{}", chunk), std::move(gradients));
  }
  return groups;
}

}  // namespace trireme

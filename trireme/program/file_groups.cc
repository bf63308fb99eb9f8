// See file_groups.h.
#include "trireme/program/file_groups.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

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

// One that is computed with, one that comes and one that goes. Gradients mostly go.
const FileGroups::Slots FileGroups::kOptimizer{0, 3}, FileGroups::kGradients{3, 2},
    FileGroups::kWeights{5, 3};

StatesInFile& FileGroups::add(const Slots& slots, std::string name, std::vector<std::string> states) {
  const auto others = std::ranges::count_if(groups_, [&](const StatesInFile& group) {
    return group.slot >= slots.first && group.slot < slots.first + slots.count;
  });
  return groups_.emplace_back(
      StatesInFile{std::move(name), std::move(states), slots.first + static_cast<int>(others) % slots.count});
}

void FileGroups::add_optimizer(const std::string& part, const std::vector<std::string>& states,
                               int64_t rows) {
  if (states.empty()) return;
  const bool goes_on = rows > 0 && !groups_.empty() && groups_.back().states == states;
  const int64_t first_row = goes_on ? groups_.back().first_row + rows : 0;
  StatesInFile& group = add(kOptimizer, part, states);
  group.rows = rows;
  group.first_row = first_row;
}

void FileGroups::add_kept(const UpdatePart& part) {
  std::vector<std::string>& kept = kept_[part.chunk];
  kept.insert(kept.end(), part.kept.begin(), part.kept.end());
}

void FileGroups::add_chunks(const Graph& update, const ChunksInFiles& chunks) {
  for (int chunk = 0; chunk < chunks.chunks; ++chunk) {
    std::vector<std::string> weights = states_of_chunk(update, Role::kParameter, chunk, chunks),
                             gradients = states_of_chunk(update, Role::kGradient, chunk, chunks);
    gradients.insert(gradients.end(), kept_[chunk].begin(), kept_[chunk].end());
    if (offload_.weights && !weights.empty())
      add(kWeights, fmt::format("weights.{}", chunk), std::move(weights));
    if (offload_.gradients && !gradients.empty())
      add(kGradients, fmt::format("gradients.{}", chunk), std::move(gradients));
  }
}

}  // namespace trireme

// Names of the spaces that values lie in, for the text form of programs.
#pragma once

#include <optional>
#include <string_view>

#include "trireme/passes/memory.h"

namespace trireme {

inline constexpr std::pair<Space, std::string_view> kSpaces[] = {
    {Space::kArena, "arena"}, {Space::kComm, "comm"}, {Space::kStates, "states"}, {Space::kInputs, "inputs"}};

inline std::string_view name(Space space) {
  return kSpaces[static_cast<size_t>(space)].second;
}

inline std::optional<Space> parse_space(std::string_view text) {
  for (const auto& [space, known] : kSpaces) {
    if (known == text) return space;
  }
  return std::nullopt;
}

}  // namespace trireme

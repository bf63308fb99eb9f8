// Names of the spaces that values lie in, for the text form of programs.
#pragma once

#include "trireme/base/enum_name.h"
#include "trireme/passes/memory.h"

namespace trireme {

inline constexpr EnumNames<4> kSpaces = {"arena", "comm", "states", "inputs"};

inline std::string_view name(Space space) {
  return kSpaces[static_cast<size_t>(space)];
}

inline std::optional<Space> parse_space(std::string_view text) {
  return enum_named<Space>(kSpaces, text);
}

}  // namespace trireme

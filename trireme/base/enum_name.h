// Enums whose values have names: one table of them, in the order of the enumerators.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace trireme {

template <size_t kCount>
using EnumNames = std::array<std::string_view, kCount>;

// The value with this name; nothing where there is none.
template <typename Enum, size_t kCount>
std::optional<Enum> enum_named(const EnumNames<kCount>& names, std::string_view text) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace trireme

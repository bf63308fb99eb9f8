// Names of roles, in the text form of graphs and in tables for people.
#include "trireme/ir/role.h"

#include <array>

namespace trireme {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 11> kRoles = {"",        "parameter", "buffer", "optimizer",
                                                     "gradient", "pending",   "cache",  "stash",
                                                     "batch",    "rng",       "scalar"};
constexpr std::array<std::string_view, 3> kOutputRoles = {"", "addend", "rows"};

template <typename Enum, size_t n>
std::optional<Enum> find(const std::array<std::string_view, n>& names, std::string_view text) {
  for (size_t i = 0; i < n; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(Role role) {
  return kRoles[static_cast<size_t>(role)];
}
std::optional<Role> parse_role(std::string_view text) {
  return find<Role>(kRoles, text);
}
std::string_view name(OutputRole role) {
  return kOutputRoles[static_cast<size_t>(role)];
}
std::optional<OutputRole> parse_output_role(std::string_view text) {
  return find<OutputRole>(kOutputRoles, text);
}

}  // namespace trireme

// Names of roles, in the text form of graphs and in tables for people.
#include "trireme/ir/role.h"

#include "trireme/base/enum_name.h"

namespace trireme {
namespace {

// In the order of the enumerators.
constexpr EnumNames<15> kRoles = {"",         "parameter", "buffer",  "master",  "optimizer",
                                  "residual", "gradient",  "pending", "message", "cache",
                                  "version",  "stash",     "batch",   "rng",     "scalar"};
constexpr EnumNames<7> kOutputRoles = {"", "addend", "rows", "objective", "load", "dropped", "importance"};

}  // namespace

std::string_view name(Role role) {
  return kRoles[static_cast<size_t>(role)];
}
std::optional<Role> parse_role(std::string_view text) {
  return enum_named<Role>(kRoles, text);
}
std::string_view name(OutputRole role) {
  return kOutputRoles[static_cast<size_t>(role)];
}
std::optional<OutputRole> parse_output_role(std::string_view text) {
  return enum_named<OutputRole>(kOutputRoles, text);
}

}  // namespace trireme

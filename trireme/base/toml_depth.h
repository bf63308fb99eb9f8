// TOML that a reader can take: it goes into tables within tables level by level, and would overflow its stack
// where a key has many thousand parts.
#pragma once

#include <string_view>

namespace trireme {

// Throws an Error, with file and line, where a key has more parts than any that is meant. `expected` is what
// such a file holds.
void check_toml_depth(std::string_view text, std::string_view file, std::string_view expected);

}  // namespace trireme

// Files that people name: configs, plans, clusters, logs. All of them are regular files of a reasonable size;
// a pipe would be waited for, and a device may never end.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

// Throws an Error where `path` is a folder, a pipe, a socket or a device. `expected` says what a reader wants
// ("a plan, in JSON"). A path that does not exist is left to its reader.
void expect_regular_file(const std::string& path, std::string_view expected);

// The whole of a file. Throws Error where it can not be read, is no regular file, or is larger than
// `most_bytes`.
std::string read_input_file(const std::string& path, size_t most_bytes, std::string_view expected);

// TOML readers go into tables within tables level by level, and would overflow their stack where a key has
// many thousand parts. Throws an Error, with file and line, where a key has more parts than any that is
// meant. `expected` is what such a file holds.
void check_toml_depth(std::string_view text, std::string_view file, std::string_view expected);

}  // namespace trireme

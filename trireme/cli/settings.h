// What commands that take a config share: a file, settings and flags taken apart.
#pragma once

#include <initializer_list>
#include <set>
#include <span>
#include <string>

#include "trireme/train/config.h"

namespace trireme::cli {

struct Settings {
  ConfigSources sources;        // for resolve_config()
  std::set<std::string> flags;  // those of the command's own that were given
  bool has(const std::string& flag) const { return flags.contains(flag); }
};

// CONFIG.toml, --section.key=value (or --section.key value) and flags of the command, in any order. Throws an
// Error that names the nearest flag for an argument that is none of these.
Settings read_settings(std::span<const std::string> arguments, std::initializer_list<std::string> flags);

// The text that is learned when no data is named: the repository that this program was built from, or the
// folder it is run in when that is gone.
std::string default_text();

}  // namespace trireme::cli

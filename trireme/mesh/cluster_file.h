// Clusters as TOML: files, and those that come with Trireme. docs/simulator.md has all keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/mesh/cluster.h"

namespace trireme {

// `text`: the name of a shipped cluster, or the path of a file. Throws Error as parse_cluster() does, and
// with the nearest name when there is neither.
Cluster read_cluster(const std::string& text);

// Throws Error with `origin`, the line, what was found and what was expected: for what is no TOML, an unknown
// key (with the nearest known one), a wrong type, and what check() refuses.
Cluster parse_cluster(std::string_view toml, std::string_view origin);

// With every key, so that it reads back as the same cluster.
std::string to_toml(const Cluster& cluster);

// Those that come with Trireme, by name; and one's text, with what is known of its figures. "" when there is
// none.
std::vector<std::string> shipped_clusters();
std::string shipped_cluster(std::string_view name);

}  // namespace trireme

// `--json FILE`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme::cli {

// Writes the list, indented. Throws Error.
void write_json(const std::string& path, const nlohmann::ordered_json& list);

}  // namespace trireme::cli

// What a command was asked to write to a file beside what it prints. Both throw Error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme::cli {

void write_picture(const std::string& path, const std::string& svg);
// The list, indented.
void write_json(const std::string& path, const nlohmann::ordered_json& list);

}  // namespace trireme::cli

// What a command was asked to write to a file beside what it prints. All throw Error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme::cli {

// `what` it is: "picture".
void write_file(const std::string& path, const std::string& text, std::string_view what);
// The list or object, indented.
void write_json(const std::string& path, const nlohmann::ordered_json& list);

}  // namespace trireme::cli

// What a command was asked to write to a file beside what it prints. All throw Error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme::cli {

void write_picture(const std::string& path, const std::string& svg);
void write_trace(const std::string& path, const std::string& json);
void write_plan(const std::string& path, const std::string& json);
// The list or object, indented.
void write_json(const std::string& path, const nlohmann::ordered_json& list);
void write_predictions(const std::string& path, const std::string& lines);

}  // namespace trireme::cli

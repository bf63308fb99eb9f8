// Records of a TensorBoard file: protocol buffers of the few kinds that a run needs, framed by their length
// and CRC-32C. Every text is bytes as they are to stand in the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trireme::tensorboard {

// The first record of a file.
std::string version_record(double time);
// A run goes on: what earlier files hold from this step on is dropped by readers.
std::string restart_record(double time, int64_t step);

// What a chart shows for a step.
struct Scalar {
  std::string tag;
  double value;
};
std::string scalars_record(double time, int64_t step, const std::vector<Scalar>& scalars);
// Markdown.
std::string text_record(double time, int64_t step, std::string_view tag, std::string_view text);

// Settings by which runs are compared, and the scalars that say how good they are.
using SettingValue = std::variant<double, bool, std::string>;
using Settings = std::vector<std::pair<std::string, SettingValue>>;
std::string settings_record(double time, const Settings& settings,
                            const std::vector<std::string>& result_tags);
std::string session_start_record(double time, const Settings& settings);
std::string session_end_record(double time);

}  // namespace trireme::tensorboard

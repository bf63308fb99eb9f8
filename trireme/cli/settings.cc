// Command lines with settings; see settings.h.
#include "trireme/cli/settings.h"

#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::cli {

Settings read_settings(std::span<const std::string> arguments, std::initializer_list<std::string> flags) {
  Settings settings;
  settings.sources.environment = process_environment();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (is_config_argument(argument)) {
      settings.sources.command_line.push_back(argument);
      const bool value_follows = argument.find('=') == std::string::npos && i + 1 < arguments.size();
      if (value_follows) settings.sources.command_line.push_back(arguments[++i]);
    } else if (std::ranges::find(flags, argument) != flags.end()) {
      settings.flags.insert(argument);
    } else if (argument.starts_with("-")) {
      const std::string guess = nearest(argument, std::vector<std::string>(flags));
      throw_error("there is no option {}{}", argument,
                  guess.empty() ? "; settings are written --section.key=value"
                                : fmt::format("; did you mean {}?", guess));
    } else if (settings.sources.file) {
      throw_error("two configs are given, {} and {}; one is expected", settings.sources.file->name, argument);
    } else {
      settings.sources.file = read_config_file(argument);
    }
  }
  return settings;
}

std::string default_text() {
  return std::filesystem::is_directory(TRIREME_SOURCE_DIR) ? TRIREME_SOURCE_DIR
                                                           : std::filesystem::current_path().string();
}

}  // namespace trireme::cli

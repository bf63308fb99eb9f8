// See arguments.h.
#include "trireme/cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/run/config.h"

namespace trireme::cli {
namespace {

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

ArgumentsEnd refusal(const CLI::App& app, std::string_view message) {
  return {kUsage,
          fmt::format("{}: {}\n`{} --help` says what it takes.\n", app.get_name(), message, app.get_name())};
}

// The first value that is not a number where one is expected. CLI11 lets it pass every range: it is not
// below its beginning, nor above its end.
std::string not_a_number(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (!type.starts_with("FLOAT") && !type.starts_with("SECONDS")) continue;
    for (const std::string& value : option->results()) {
      char* end = nullptr;
      if (std::isnan(std::strtod(value.c_str(), &end)) && end != value.c_str())
        return fmt::format("{}: {} found, a number expected", option->get_name(), value);
    }
  }
  return "";
}

enum class Settings { kNone, kTaken };

// "--steps" is more likely train.steps than a misspelt flag.
std::string likely_argument(const CLI::App& app, const std::string& name, Settings settings) {
  const std::vector<std::string> flags = flag_names(app);
  const std::string flag = nearest(name, flags);
  if (settings == Settings::kNone) return flag;
  const std::string key = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  const std::string setting = setting_like(key);
  const bool has_key = setting.ends_with("." + key);
  return setting.empty() || (!flag.empty() && !has_key) ? flag : "--" + setting;
}

std::string unknown_argument(const CLI::App& app, const std::string& argument, Settings settings) {
  if (!argument.starts_with("-")) return fmt::format("'{}' is one argument too many", argument);
  const std::string name = argument.substr(0, argument.find('='));
  const std::string guess = likely_argument(app, name, settings);
  return fmt::format("there is no option '{}'{}", name,
                     guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess));
}

void print_commands(std::FILE* out, std::string_view parent, std::span<const Command> commands) {
  fmt::print(out, "usage: trireme {} WHAT [ARGUMENTS]\n\n", parent);
  for (const Command& command : commands) fmt::print(out, "  {:<11} {}\n", command.name, command.summary);
  fmt::print(out, "\n`trireme {} WHAT --help` says more.\n", parent);
}

constexpr std::string_view kUnits = "KMG";
constexpr size_t kMostBytes = size_t{16} << 30;

size_t parse_size(const std::string& text) {
  size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  const size_t unit = rest == end ? 0 : kUnits.find(*rest) + 1;  // 0 too for what is no unit
  const bool whole = rest + (unit > 0 ? 1 : 0) == end;
  if (problem != std::errc() || !whole || number == 0 || number > (kMostBytes >> (10 * unit))) {
    throw_error("'{}' is not a size; expected bytes from 1 to {}, such as 512, 4K or 64M", text,
                size_text(kMostBytes));
  }
  return number << (10 * unit);
}

}  // namespace

SplitArguments split_settings(std::span<const std::string> arguments, std::string_view about_settings) {
  SplitArguments split;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool follows = i > 0 && !about_settings.empty() && arguments[i - 1] == about_settings;
    if (follows || !is_config_argument(arguments[i])) {
      split.own.push_back(arguments[i]);
      continue;
    }
    split.settings.push_back(arguments[i]);
    const bool has_value = arguments[i].find('=') != std::string::npos;
    if (!has_value && i + 1 < arguments.size()) split.settings.push_back(arguments[++i]);
  }
  return split;
}

namespace {

std::optional<ArgumentsEnd> read(CLI::App& app, const std::vector<std::string>& arguments,
                                 std::string_view more_help, Settings settings) {
  app.allow_extras();
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // the order CLI11 takes
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return ArgumentsEnd{kOk, fmt::format("{}{}", app.help(), more_help)};
  } catch (const CLI::ParseError& error) {
    return refusal(app, error.what());
  }
  if (const std::string problem = not_a_number(app); !problem.empty()) return refusal(app, problem);
  const std::vector<std::string> unknown = app.remaining();
  if (!unknown.empty()) return refusal(app, unknown_argument(app, unknown.front(), settings));
  return std::nullopt;
}

std::optional<int> printed(const std::optional<ArgumentsEnd>& end) {
  if (!end) return std::nullopt;
  fmt::print(end->code == kOk ? stdout : stderr, "{}", end->text);
  return end->code;
}

}  // namespace

std::optional<ArgumentsEnd> read_arguments(CLI::App& app, const std::vector<std::string>& arguments,
                                           std::string_view more_help) {
  return read(app, arguments, more_help, Settings::kNone);
}

std::optional<int> parse_arguments(CLI::App& app, const std::vector<std::string>& arguments,
                                   std::string_view more_help) {
  return printed(read_arguments(app, arguments, more_help));
}

std::optional<int> parse_arguments(CLI::App& app, const SplitArguments& split, std::string_view more_help) {
  return printed(read(app, split.own, more_help, Settings::kTaken));
}

int run_command_of(std::string_view parent, std::span<const Command> commands,
                   std::span<const std::string> arguments) {
  if (arguments.empty()) {
    print_commands(stderr, parent, commands);
    return kUsage;
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    print_commands(stdout, parent, commands);
    return kOk;
  }
  const auto found = std::ranges::find(commands, name, &Command::name);
  if (found != commands.end()) return found->run(arguments.subspan(1));

  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  const std::string guess = nearest(name, names);
  fmt::print(stderr, "trireme {}: there is no '{}'{}\n\n", parent, name,
             guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess));
  print_commands(stderr, parent, commands);
  return kUsage;
}

std::vector<size_t> parse_sizes(const std::string& text) {
  std::vector<size_t> sizes;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> ends = split(part, '-');
    const size_t first = parse_size(ends.front());
    const size_t last = ends.size() == 1 ? first : parse_size(ends.back());
    if (ends.size() > 2 || first > last) throw_error("'{}' is not a range of sizes, such as 8-64M", part);
    for (size_t bytes = first; bytes < last; bytes *= 4) sizes.push_back(bytes);
    sizes.push_back(last);
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::string size_text(size_t bytes) {
  size_t unit = 0;
  while (unit < kUnits.size() && bytes > 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, unit == 0 ? std::string_view() : kUnits.substr(unit - 1, 1));
}

}  // namespace trireme::cli

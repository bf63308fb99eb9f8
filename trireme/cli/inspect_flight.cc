// `trireme inspect flight`: who was where when a rank of a run was lost or stuck.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/run/flight_file.h"

namespace trireme::cli {
namespace {

constexpr size_t kMostFlightBytes = size_t{1} << 30;

std::string flight_path(const std::string& path) {
  const std::filesystem::path file = std::filesystem::is_directory(path)
                                         ? std::filesystem::path(path) / kFlightFile
                                         : std::filesystem::path(path);
  if (!std::filesystem::exists(file))
    throw_error(
        "{}: there is no such file. `trireme train -n` writes it when a rank is lost or stuck: into run.dir or, without that, "
        "into the folder for temporary files. It prints its name",
        file.string());
  return file.string();
}

std::string local_time_text(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = "";
  if (localtime_r(&time, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

}  // namespace

int inspect_flight(std::span<const std::string> arguments) {
  std::string path;
  int rows = 4;
  bool json = false;
  CLI::App app("Shows what each rank did last when one was lost or stuck.", "trireme inspect flight");
  app.add_option("run", path, "the run's folder, or the file that `trireme train` named")->required();
  app.add_option("--rows", rows, "operations per rank; default 4")->check(CLI::Range(1, 1000));
  app.add_flag("--json", json, "print the file, with all operations that were recorded");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  const std::string file = flight_path(path);
  const FlightFile flight = parse_flight(read_input_file(file, kMostFlightBytes, "a flight record"), file);
  if (json) {
    fmt::print("{}", render_flight(flight));
    return kOk;
  }
  fmt::print("{}, of {} ranks\n{}", local_time_text(flight.time), flight.record.ranks,
             printable(table_of(flight.record, rows)));
  return kOk;
}

}  // namespace trireme::cli

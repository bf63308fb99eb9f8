// `trireme top [FOLDER…]`: the runs in some folders as a table in the terminal, drawn again every two
// seconds.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <thread>

#include "trireme/base/output.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/progress.h"
#include "trireme/dashboard/top_table.h"

namespace trireme::cli {
namespace {

constexpr std::chrono::seconds kBetweenTables{2};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

int top(std::span<const std::string> arguments) {
  std::vector<std::string> folders;
  bool once = false;
  CLI::App app("Shows the runs in some folders, those that are running first. Ctrl-C ends it.",
               "trireme top");
  app.add_option("folder", folders, "a run's folder, or one that holds the folders of runs; default runs");
  app.add_flag("--once", once, "print all runs once; so it is where the output is no terminal");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  dashboard::Runs runs({.folders = folders_or_runs(folders), .look_again_seconds = 0});
  if (once || detect_screen() != Progress::Options::Screen::kTerminal) {
    runs.look(seconds_now());
    fmt::print("{}", dashboard::top_table(runs, INT_MAX, INT_MAX));
    return kOk;
  }
  for (;;) {
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 1;
    runs.look(seconds_now());
    say("\x1b[H\x1b[2J{}",
        dashboard::top_table(runs, known ? size.ws_row - 1 : 23, known ? size.ws_col : 80));
    std::fflush(stdout);
    std::this_thread::sleep_for(kBetweenTables);
  }
}

}  // namespace trireme::cli

// `trireme top [FOLDER…]`: the runs in some folders as a table in the terminal, drawn again every two
// seconds, until q or Ctrl-C; or their newest numbers, as Prometheus reads them.
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>

#include "trireme/base/output.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/progress.h"
#include "trireme/dashboard/answers.h"
#include "trireme/dashboard/top_table.h"

namespace trireme::cli {
namespace {

constexpr int kBetweenTablesMs = 2000;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

volatile std::sig_atomic_t top_is_over = 0;

// A screen of its own while the table is shown: what was on the terminal is there again afterwards. Keys are
// read one by one and not echoed.
class OwnScreen {
 public:
  OwnScreen() {
    struct sigaction action {};
    action.sa_handler = [](int) { top_is_over = 1; };
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
    action.sa_handler = [](int) {};
    sigaction(SIGWINCH, &action, nullptr);  // ends the wait: the table is drawn for the new size
    has_keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    say("\x1b[?1049h\x1b[?25l");
  }
  ~OwnScreen() {
    say("\x1b[?25h\x1b[?1049l");
    std::fflush(stdout);
    if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  OwnScreen(const OwnScreen&) = delete;
  OwnScreen& operator=(const OwnScreen&) = delete;

  // Line by line over what is there, so that nothing flickers.
  void draw(const dashboard::Runs& runs) const {
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 1;
    std::string text = "\x1b[H";
    for (const char c : dashboard::top_table(runs, known ? size.ws_row - 1 : 23, known ? size.ws_col : 80)) {
      if (c == '\n') text += "\x1b[K";
      text += c;
    }
    say("{}\x1b[J", text);
    std::fflush(stdout);
  }
  // Until the next table is due. Returns whether the user has had enough.
  bool wait() const {
    pollfd keys{.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    if (poll(&keys, 1, kBetweenTablesMs) <= 0 || !(keys.revents & (POLLIN | POLLHUP))) return top_is_over;
    char key = 0;
    return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || top_is_over;
  }

 private:
  bool has_keys_ = false;
  termios before_{};
};

}  // namespace

int top(std::span<const std::string> arguments) {
  std::vector<std::string> folders;
  bool once = false, prometheus = false;
  CLI::App app("Shows the runs in some folders, those that are running first. q or Ctrl-C ends it.",
               "trireme top");
  app.add_option("folder", folders, "a run's folder, or one that holds the folders of runs; default runs");
  app.add_flag("--once", once, "print all runs once; so it is where the output is no terminal");
  app.add_flag("--prometheus", prometheus,
               "print the newest numbers of all runs once, in the text format of Prometheus");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  dashboard::Runs runs({.folders = folders_or_runs(folders), .look_again_seconds = 0});
  if (prometheus) {
    runs.look(seconds_now());
    fmt::print("{}", dashboard::prometheus_answer(runs));
    return kOk;
  }
  if (once || detect_screen() != Progress::Options::Screen::kTerminal) {
    runs.look(seconds_now());
    fmt::print("{}", dashboard::top_table(runs, INT_MAX, INT_MAX));
    return kOk;
  }
  const OwnScreen screen;
  do {
    runs.look(seconds_now());
    screen.draw(runs);
  } while (!screen.wait());
  return kOk;
}

}  // namespace trireme::cli

// Progress lines; see progress.h.
#include "trireme/cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "trireme/base/output.h"
#include "trireme/base/text.h"

namespace trireme::cli {
namespace {

std::string format_duration(double seconds) {
  const int64_t total = static_cast<int64_t>(seconds + 0.5);
  if (total >= 3600) return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
  if (total >= 60) return fmt::format("{}m{:02}s", total / 60, total % 60);
  return fmt::format("{}s", total);
}

std::string bar(double part) {
  constexpr int kBarWidth = 20;
  const int full = static_cast<int>(part * kBarWidth);
  std::string text;
  for (int i = 0; i < kBarWidth; ++i) text += i < full ? "█" : "░";
  return text;
}

// Of text whose characters all take one column.
int columns_of(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

int terminal_columns() {
  constexpr int kUsual = 80;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

Progress::Options::Screen detect_screen() {
  const char* term = std::getenv("TERM");
  const bool terminal = isatty(STDOUT_FILENO) && term && std::string_view(term) != "dumb";
  return terminal ? Progress::Options::Screen::kTerminal : Progress::Options::Screen::kLines;
}

Progress::Progress(Options options) : options_(std::move(options)) {}

Progress::~Progress() {
  finish();
}

std::vector<Progress::Part> Progress::parts(const StepMetrics& m) const {
  const int64_t done = first_step_ < 0 ? 1 : m.step - first_step_ + 1, left = options_.steps - m.step;
  std::vector<Part> parts = {{fmt::format("step {}/{}", m.step, options_.steps), 0},
                             {fmt::format("loss {:.4f}", m.loss), 9},
                             {fmt::format("lr {:.2e}", m.lr), 4},
                             {fmt::format("grad {:.3f}", m.grad_norm), 5},
                             {fmt::format("{:.0f} {}", m.samples_per_second, options_.rate_unit), 7}};
  if (m.mfu) parts.push_back({fmt::format("MFU {:.1f}%", 100 * *m.mfu), 6});
  if (!m.experts.empty()) {
    double load = 0, dropped = 0;  // of the worst layer
    for (const ExpertUse& layer : m.experts) {
      load = std::max(load, layer.max_load);
      dropped = std::max(dropped, layer.dropped);
    }
    parts.push_back({fmt::format("load {:.2f}", load), 3});
    if (dropped > 0) parts.push_back({fmt::format("dropped {:.1f}%", 100 * dropped), 3});
  }
  if (m.critical_batch) parts.push_back({fmt::format("critical batch {:.1f}", *m.critical_batch), 3});
  const double comm = m.step_seconds > 0 ? 100 * m.comm_seconds / m.step_seconds : 0.0;
  parts.push_back({fmt::format("mem {}", format_bytes(m.peak_bytes)), 1});
  parts.push_back({fmt::format("comm {:.1f}%", comm), 2});
  const double seconds = seconds_ / static_cast<double>(done) * static_cast<double>(left);
  parts.push_back({fmt::format("ETA {}", format_duration(seconds)), 8});
  return parts;
}

std::string Progress::describe(const StepMetrics& m) const {
  return describe(m, INT_MAX);
}

std::string Progress::describe(const StepMetrics& m, int columns) const {
  std::vector<Part> shown = parts(m);
  const auto text = [&] {
    std::string line;
    for (const Part& part : shown) line += (line.empty() ? "" : "  ") + part.text;
    return line;
  };
  while (columns_of(text()) > columns && shown.size() > 1) {
    const auto leaves = [](const Part& part) { return part.leaves == 0 ? INT_MAX : part.leaves; };
    shown.erase(std::ranges::min_element(shown, {}, leaves));
  }
  return text().substr(0, static_cast<size_t>(columns));
}

void Progress::step(const StepMetrics& m) {
  if (first_step_ < 0) first_step_ = m.step;
  seconds_ += m.step_seconds;
  const bool due = m.step % options_.log_every == 0 || m.step == options_.steps || m.step == first_step_;
  if (options_.screen == Options::Screen::kTerminal) {
    // A line of the full width would be wrapped by some terminals, and the next one not drawn over it.
    const int columns = terminal_columns() - 1;
    const std::string whole = describe(m),
                      done = bar(static_cast<double>(m.step) / static_cast<double>(options_.steps));
    const bool room = columns_of(done) + 1 + columns_of(whole) <= columns;
    say("\r\x1b[K{}", room ? done + " " + whole : describe(m, columns));
    std::fflush(stdout);
    drawn_ = true;
  } else if (due) {
    say("{}\n", describe(m));
    std::fflush(stdout);
  }
}

void Progress::note(const std::string& text) {
  finish();
  say("{}\n", text);
  std::fflush(stdout);
}

void Progress::finish() {
  if (drawn_) say("\n");
  std::fflush(stdout);
  drawn_ = false;
}

}  // namespace trireme::cli

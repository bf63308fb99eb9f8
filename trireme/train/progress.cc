// Progress lines; see progress.h.
#include "trireme/train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "trireme/base/text.h"

namespace trireme {
namespace {

std::string format_duration(double seconds) {
  const int64_t total = static_cast<int64_t>(seconds + 0.5);
  if (total >= 3600) return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
  if (total >= 60) return fmt::format("{}m{:02}s", total / 60, total % 60);
  return fmt::format("{}s", total);
}

std::string bar(double part) {
  constexpr int kWidth = 20;
  const int full = static_cast<int>(part * kWidth);
  std::string text;
  for (int i = 0; i < kWidth; ++i) text += i < full ? "█" : "░";
  return text;
}

}  // namespace

Progress::Options::Screen detect_screen() {
  const char* term = std::getenv("TERM");
  const bool terminal = isatty(STDOUT_FILENO) && term && std::string_view(term) != "dumb";
  return terminal ? Progress::Options::Screen::kTerminal : Progress::Options::Screen::kLines;
}

Progress::Progress(Options options) : options_(std::move(options)) {}

std::string Progress::describe(const StepMetrics& m) const {
  const int64_t done = m.step - first_step_ + 1, left = options_.steps - m.step;
  std::string text =
      fmt::format("step {}/{}  loss {:.4f}  lr {:.2e}  grad {:.3f}  {:.0f} {}", m.step, options_.steps,
                  m.loss, m.lr, m.grad_norm, m.samples_per_second, options_.rate_unit);
  if (options_.peak_flops > 0 && m.step_seconds > 0) {
    text +=
        fmt::format("  MFU {:.1f}%", 100 * options_.flops_per_step / m.step_seconds / options_.peak_flops);
  }
  if (m.critical_batch) text += fmt::format("  critical batch {:.1f}", *m.critical_batch);
  text += fmt::format("  mem {}  comm {:.1f}%  ETA {}", format_bytes(m.peak_bytes),
                      m.step_seconds > 0 ? 100 * m.comm_seconds / m.step_seconds : 0.0,
                      format_duration(seconds_ / static_cast<double>(done) * static_cast<double>(left)));
  return text;
}

void Progress::step(const StepMetrics& m) {
  if (first_step_ < 0) first_step_ = m.step;
  seconds_ += m.step_seconds;
  const bool due = m.step % options_.log_every == 0 || m.step == options_.steps || m.step == first_step_;
  if (options_.screen == Options::Screen::kTerminal) {
    const double part = static_cast<double>(m.step) / static_cast<double>(options_.steps);
    fmt::print("\r\x1b[K{} {}", bar(part), describe(m));
    std::fflush(stdout);
    drawn_ = true;
  } else if (due) {
    fmt::print("{}\n", describe(m));
    std::fflush(stdout);
  }
}

void Progress::note(const std::string& text) {
  finish();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Progress::finish() {
  if (drawn_) fmt::print("\n");
  std::fflush(stdout);
  drawn_ = false;
}

}  // namespace trireme

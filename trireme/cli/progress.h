// What a person sees while a run goes on: one line a step, or one line that is drawn anew on a terminal.
#pragma once

#include <string>
#include <vector>

#include "trireme/run/run_folder.h"

namespace trireme::cli {

class Progress {
 public:
  struct Options {
    int64_t steps = 0;  // of the whole run
    int64_t log_every = 1;
    std::string rate_unit;  // "tok/s" or "img/s"
    enum class Screen { kLines, kTerminal } screen = Screen::kLines;
  };
  explicit Progress(Options options);
  ~Progress();  // finish(): what is said of an error has a line of its own
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepMetrics& metrics);
  // A line that stays, e.g. of a validation or a checkpoint.
  void note(const std::string& text);
  void finish();  // ends the line that is being drawn

  // What a line says of a step; with `columns`, the most important of it that fits so many.
  std::string describe(const StepMetrics& metrics) const;
  std::string describe(const StepMetrics& metrics, int columns) const;

 private:
  struct Part {
    std::string text;
    int leaves;  // what does not fit leaves in this order; 0: stays
  };
  std::vector<Part> parts(const StepMetrics& metrics) const;

  Options options_;
  int64_t first_step_ = -1;
  double seconds_ = 0;
  bool drawn_ = false;
};

// Terminal when standard output is one and TERM can move the cursor.
Progress::Options::Screen detect_screen();

}  // namespace trireme::cli

// What `trireme verify --sweep` prints: a table of verdicts by model and by precision, why cases were
// refused, and for each failure the command that shows it again.
#pragma once

#include <string>
#include <vector>

#include "trireme/run/sweep.h"

namespace trireme::cli {

class SweepReport {
 public:
  void add(const parity::SweepResult& result);
  bool has_failures() const;
  std::string text() const;

 private:
  std::vector<parity::SweepResult> results_;
};

// A failure in some lines: what it is, the first line of why, the command.
std::string failure_text(const parity::SweepResult& result);

}  // namespace trireme::cli

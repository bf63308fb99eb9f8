// Random cases (random_case.h), one after another until the time is up, each in a process of its own: a
// broken invariant or ranks that wait for ever are that case's verdict and end nothing else.
#pragma once

#include <functional>
#include <string>

#include "trireme/run/random_case.h"

namespace trireme::parity {

enum class Outcome {
  kEqual,
  kRounding,
  kRefused,
  kBug,
  kFailed,   // ranks ended with an Error on the way: different calls, say
  kAborted,  // the process died
  kHung,     // it was not done in time
};
inline constexpr int kOutcomes = 7;
std::string_view name(Outcome outcome);  // "equal", …
// Whether something is wrong with the program; refusals are as they should be.
bool is_failure(Outcome outcome);

struct SweepOptions {
  double seconds = 60;
  uint64_t seed = 1;
  uint64_t most_cases = UINT64_MAX;
  CaseRanges ranges = {};
  // After which a case counts as hung. Cases take a second, but on a busy machine eight ranks wait long for
  // their turn; and ranks that wait in a collective end by themselves in 300, saying for what.
  double case_seconds = 400;
  int at_once = 0;  // cases; automatic: one per core
};

struct SweepResult {
  uint64_t number = 0;
  RandomCase drawn;
  Outcome outcome = Outcome::kEqual;
  std::string reason;  // of a refusal, bug, failure or end; "" else
  double worst = 0;    // see Result
};

// Calls back for each case as it ends. Of one seed, the same cases come, as many as the time allows. No other
// threads may run: processes are forked.
void sweep(const SweepOptions& options, const std::function<void(const SweepResult&)>& report);

// Runs one case in a child process, by verify_case() or what stands in its place.
using CaseRunner = std::function<Result(const RandomCase&)>;
SweepResult run_apart(const RandomCase& drawn, double seconds, const CaseRunner& run = verify_case);

// Words with names and numbers in them replaced by …, so that equal reasons for different cases are equal.
std::string reason_kind(std::string_view reason);

}  // namespace trireme::parity

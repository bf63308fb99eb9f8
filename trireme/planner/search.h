// The search for the fastest plan: every choice is estimated (estimate.h), those that can not fit are left
// out, the promising ones are simulated as the Programs that would run, until none of the rest is believed to
// be faster or the effort is spent. What simulations show corrects the estimates of similar plans
// (corrections.h). What is found comes with a bound: no plan of the space takes less under this model of the
// cluster.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/planner/choice.h"
#include "trireme/planner/estimate.h"
#include "trireme/sim/simulate.h"

namespace trireme::planner {

// How far a search is.
struct SearchProgress {
  int64_t choices = 0, estimated = 0;  // of the space
  int64_t simulated = 0, effort = 0;   // of those that may be
  double best_seconds = 0;             // 0: nothing fits yet
};

struct SearchOptions {
  Wish wish = {};  // choices are held to this
  Devices devices = Devices::kAll;
  // Simulations at most. The same effort gives the same answer, however busy the machine is and however many
  // threads there are, unless time is up before.
  int effort = 48;
  double seconds = 300;                     // the search then ends with the best plan so far
  int threads = 2;                          // that estimate and simulate beside one another
  const std::atomic<bool>* stop = nullptr;  // ends the search likewise; outlives the result
  std::function<void(const SearchProgress&)> progress = {};
};

// A choice that may fit.
struct Candidate {
  Choice choice;
  Estimate estimate;
};
// All of them, the fastest by their estimates first. Throws Error where there is no choice at all.
std::vector<Candidate> candidates(const Subject& subject, const Cluster& cluster,
                                  const SearchOptions& options = {});

// The Programs of a choice's plan on the clock. Throws Error where the plan can not work.
sim::SimReport simulate(const Subject& subject, const Cluster& cluster, const Choice& choice,
                        const Plan& plan, const sim::SimOptions& options = {});

// A choice that was simulated.
struct Found {
  Choice choice;
  Plan plan;
  Estimate estimate;
  sim::SimReport report;
};

struct SearchResult {
  enum class End {
    kProved,    // no other choice can be faster
    kUnlikely,  // the estimates of all others, corrected by what simulations showed, are slower
    kEffort,    // as many were simulated as may be
    kTime,      // it is up
    kStopped,
  } end = End::kProved;
  // At least one: first that of the fewest microbatches among those that take 1 % more than the fastest at
  // most, then the fastest.
  std::vector<Found> fitting;
  // No choice takes less; 0, so nothing is known, where time was over before all choices were estimated, and
  // where states had to be offloaded.
  double least_seconds = 0;
  // `too_large` counts choices whose bound does not fit, and simulated ones that do not.
  int64_t choices = 0, estimated = 0, too_large = 0, refused = 0, simulated = 0;
  // Simulations that still ran when the search ended. Destroying the last copy waits for them.
  std::shared_ptr<const void> unfinished = nullptr;

  const Found& best() const { return fitting.front(); }
  // How much faster than the best that was found a plan of the space may be, as a share of its time.
  double gap() const { return 1 - least_seconds / best().report.step_seconds; }
};

// Throws Error where nothing fits: with the choice that comes nearest, and how much it needs too much; where
// there is no choice at all; and, as Interrupted, where it was ended before any plan was found to fit.
class Interrupted : public Error {
 public:
  Interrupted(const std::string& what, std::shared_ptr<const void> left)
      : Error(what), unfinished(std::move(left)) {}

  std::shared_ptr<const void> unfinished;  // as SearchResult::unfinished
};
SearchResult search(const Subject& subject, const Cluster& cluster, const SearchOptions& options = {});

}  // namespace trireme::planner

// The search for the fastest plan: every choice is estimated (estimate.h), those that can not fit are left
// out, the promising ones are simulated as the Programs that would run, until none of the rest can be faster
// or time is up. What is found comes with a bound: no plan of the space takes less under this model of the
// cluster.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/planner/choice.h"
#include "trireme/planner/estimate.h"
#include "trireme/sim/simulate.h"

namespace trireme::planner {

struct SearchOptions {
  Wish wish = {};                           // choices are held to this
  double seconds = 30;                      // after which no other choice is simulated
  int threads = 2;                          // that simulate beside one another
  int simulations = 200;                    // at most
  const std::atomic<bool>* stop = nullptr;  // ends the search with what there is
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
    kUnlikely,  // the estimates of all others, with the errors seen so far, are slower
    kLimit,     // of time or simulations
    kStopped,
  } end = End::kProved;
  // At least one: first that of the fewest microbatches among those that take 1 % more than the fastest at
  // most, then the fastest.
  std::vector<Found> fitting;
  // No choice takes less, as long as stages send all whole (Choice::boundaries); 0, so nothing is known,
  // where time was over before all choices were estimated, and where states had to be offloaded.
  double least_seconds = 0;
  int64_t choices = 0, too_large = 0, refused = 0, simulated = 0;

  const Found& best() const { return fitting.front(); }
  // How much faster than the best that was found a plan of the space may be, as a share of its time.
  double gap() const { return 1 - least_seconds / best().report.step_seconds; }
};

// Throws Error where nothing fits: with the choice that comes nearest, and how much it needs too much; and
// where there is no choice at all.
SearchResult search(const Subject& subject, const Cluster& cluster, const SearchOptions& options = {});

}  // namespace trireme::planner

// What a choice takes, in closed form from the costs of units: a time by which choices are ordered, and one
// that no Program of it can beat under the simulator's clock, by which they are left out. Memory likewise is
// what states, stashes and the largest unit's values need at least. A stage on devices of several classes
// takes as long as the slowest of them, since all have as many rows.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "trireme/planner/choice.h"
#include "trireme/planner/unit_costs.h"

namespace trireme::planner {

struct Estimate {
  double seconds = 0;
  double least_seconds = 0;
  double bytes = 0;                 // of the fullest stage
  double memory_bytes = 1;          // that a device of it has
  std::vector<std::string> begins;  // the units before which chunks are cut

  double fill() const { return bytes / memory_bytes; }
};

class Estimator {
 public:
  // All must outlive it.
  Estimator(const Subject& subject, const Cluster& cluster, UnitCosts& costs)
      : subject_(subject), cluster_(cluster), costs_(costs) {}

  // Where the model can not be split so, UnitCosts::of() is empty: then this must not be asked.
  Estimate of(const Choice& choice);

 private:
  struct Network;  // a mesh on the cluster
  struct Chunk;
  using StageCosts = std::vector<const std::vector<UnitCost>*>;  // by stage: costs of the small model's units
  Network& network(const Choice& choice);
  const std::vector<size_t>& begins_of(const Choice& choice, const StageCosts& costs);
  std::vector<Chunk> chunks_of(const Choice& choice, const StageCosts& costs,
                               const std::vector<size_t>& begins) const;

  const Subject& subject_;
  const Cluster& cluster_;
  UnitCosts& costs_;
  std::map<std::tuple<int, int, int>, std::shared_ptr<Network>> networks_;
  // By stages and chunks, and whether those lie as a V.
  std::map<std::tuple<Split, int, int, bool>, std::vector<size_t>> begins_;
};

}  // namespace trireme::planner

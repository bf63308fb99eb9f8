// What a choice takes, in closed form from the costs of units: a time by which choices are ordered, and one
// that no Program of it can beat under the simulator's clock, by which they are left out. Memory likewise is
// what states, stashes and the largest unit's values need at least.
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
  std::vector<std::string> begins;  // the units before which chunks are cut
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
  Network& network(const Choice& choice);
  const std::vector<size_t>& begins_of(const Choice& choice, const std::vector<UnitCost>& small);
  std::vector<Chunk> chunks_of(const Choice& choice, const std::vector<UnitCost>& small,
                               const std::vector<size_t>& begins) const;

  const Subject& subject_;
  const Cluster& cluster_;
  UnitCosts& costs_;
  std::map<std::tuple<int, int, int>, std::shared_ptr<Network>> networks_;
  std::map<std::pair<Split, int>, std::vector<size_t>> begins_;  // by chunks
};

}  // namespace trireme::planner

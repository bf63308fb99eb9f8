// What a choice takes, from the costs of units: a time by which choices are ordered, and bounds by which they
// are left out. No Program of a choice beats its bounds under the simulator's clock. A stage on devices of
// several classes takes as long as the slowest of them, since all have as many rows.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "trireme/planner/choice.h"
#include "trireme/planner/schedule_book.h"
#include "trireme/planner/unit_costs.h"

namespace trireme::planner {

struct Estimate {
  double seconds = 0;
  double least_seconds = 0;
  double bytes = 0;                 // of the fullest stage
  double memory_bytes = 1;          // that a device of it has
  double least_bytes = 0;           // of the stage that is certain to be the fullest
  double least_memory_bytes = 1;    // that a device of that has
  std::vector<std::string> begins;  // the units before which chunks are cut

  double fill() const { return bytes / memory_bytes; }
  // Above 1 the plan can not fit.
  double least_fill() const { return least_bytes / least_memory_bytes; }
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
  struct Stage;
  using StageCosts = std::vector<const std::vector<UnitCost>*>;  // by stage: costs of the small model's units
  Network& network(const Choice& choice);
  const BookedSchedule& schedule(const Choice& choice);
  const std::vector<size_t>& begins_of(const Choice& choice, const StageCosts& costs);
  std::vector<Chunk> chunks_of(const Choice& choice, const StageCosts& costs,
                               const std::vector<size_t>& begins);
  static void add_kept(const Choice& choice, Stage& stage, const std::vector<LiveMoment>& moments,
                       const std::vector<int>& holds, const std::vector<Chunk>& chunks);
  std::vector<Stage> stages_of(const Choice& choice, const std::vector<Chunk>& chunks, Network& links);
  void add_memory(const Choice& choice, const std::vector<Stage>& stages, const Network& links,
                  Estimate& result) const;

  const Subject& subject_;
  const Cluster& cluster_;
  UnitCosts& costs_;
  ScheduleBook book_;
  std::map<std::tuple<int, int, int>, std::shared_ptr<Network>> networks_;
  // By stages and chunks, and the stage of each chunk.
  std::map<std::tuple<Split, int, std::vector<int>>, std::vector<size_t>> begins_;
};

}  // namespace trireme::planner

// What each part of a model costs on the devices of a cluster, read from Programs: the small model is cut at
// every unit, and the Program of each stage says how long the unit works and what it keeps and sends. Done
// once for each way of splitting a unit, whatever mesh, schedule and number of layers a plan has.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/mesh/cluster.h"
#include "trireme/passes/stage.h"
#include "trireme/planner/jobs.h"
#include "trireme/planner/subject.h"

namespace trireme::planner {

// Layouts over those of a preset: a pattern of names and a layout as text, "{tensor:1}". By names of axes, so
// that it does not matter which others a mesh has.
using LayoutTexts = std::vector<std::pair<std::string, std::string>>;
std::vector<std::pair<std::string, Layout>> layouts_on(const Mesh& mesh, const LayoutTexts& texts);

// How the ranks of one stage share a microbatch: everything but data, pipe and schedule.
struct Split {
  int tensor = 1;
  std::string preset;  // over the axis tensor; "": none
  LayoutTexts layouts = {};
  int64_t rows = 1;  // of a microbatch on one rank
  Recompute::Kind recompute = Recompute::Kind::kNone;
  WeightPhase weights = WeightPhase::kNone;  // what is kept for a phase of its own is kept longer

  // Among how many ranks of the axis the rows of a microbatch are dealt.
  int64_t row_parts() const;

  friend auto operator<=>(const Split&, const Split&) = default;
};

// Of one direction of a microbatch on one rank, in seconds.
struct Pass {
  double seconds = 0;  // alone: work, and collectives that it waits for
  // Work, or collectives where they take longer: no order of nodes is faster. Work alone where layouts are
  // given: units by themselves hand on all whole, and together they may need no collective between them.
  double least = 0;

  Pass& operator+=(const Pass& other);
};

struct UnitCost {
  Pass forward, backward;
  Pass weight;  // gradients of weights, where they have a phase of their own (Split::weights)
  // By name: a weight that several units read is counted once where they are on one stage.
  struct Weight {
    std::string name;
    double parameter_bytes = 0, gradient_bytes = 0;
    double optimizer_bytes = 0;  // with masters
    double gathered_bytes = 0;   // in the format of the products, if that is shorter
    double update_seconds = 0;   // its share of the unit's update

    Weight& operator+=(const Weight& other);
  };
  std::vector<Weight> weights;
  double kept_bytes = 0;  // of a microbatch, from one of its parts to another
  // Of that, what is kept from the forward part to the backward part at least. What the backward part leaves
  // for the gradients of weights is not kept as long.
  double kept_forward_bytes = 0;
  double working_bytes = 0;  // while a part of it runs
  double ahead_bytes = 0;    // that the unit hands to the next, of a microbatch
  double back_bytes = 0;     // that it is handed back by the next
};

class UnitCosts {
 public:
  // Both must outlive it.
  UnitCosts(const Subject& subject, const Cluster& cluster) : subject_(subject), cluster_(cluster) {}

  // By device class of the cluster, and by unit of the small model; empty where the model can not be split
  // so, and then why says the reason.
  struct Table {
    std::vector<std::vector<UnitCost>> on;
    std::string why;
  };
  // Measures those that are not known yet, several at a time. False where it was over before.
  bool measure(const std::vector<Split>& splits, Jobs& jobs);
  const Table& of(const Split& split);

 private:
  Table measured(const Split& split) const;

  const Subject& subject_;
  const Cluster& cluster_;
  std::map<Split, Table> known_;
};

}  // namespace trireme::planner

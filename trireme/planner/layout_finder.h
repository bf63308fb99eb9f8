// Layouts for the axis tensor that no preset has: axis_layouts.h asked about a subject's graph, and its
// answer in the words of a plan.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "trireme/planner/axis_layouts.h"
#include "trireme/planner/subject.h"
#include "trireme/planner/unit_costs.h"

namespace trireme::planner {

// What a plan says of the axis tensor.
struct TensorSplit {
  std::string preset;  // that the layouts stand over; "": none
  LayoutTexts layouts;
  friend bool operator==(const TensorSplit&, const TensorSplit&) = default;
};

class LayoutFinder {
 public:
  // Both must outlive it.
  LayoutFinder(const Subject& subject, const Cluster& cluster) : subject_(subject), cluster_(cluster) {}

  // The fastest for `rows` rows a rank in so many microbatches. nullopt where the subject has no graph, where
  // nothing is worth splitting, and where one of the subject's presets says the same.
  std::optional<TensorSplit> find(int ranks, AxisQuestion::Rows rows_of_ranks, int64_t rows,
                                  int64_t microbatches);

 private:
  std::optional<TensorSplit> found(const AxisQuestion& question, int64_t rows) const;

  const Subject& subject_;
  const Cluster& cluster_;
  std::map<std::tuple<int, AxisQuestion::Rows, int64_t, int64_t>, std::optional<TensorSplit>> known_;
};

}  // namespace trireme::planner

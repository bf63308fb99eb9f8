// States that ranks keep which go on by themselves for some steps: a first dim of 1, of which all ranks have
// one each, so that checkpoints know them as they know residuals. And the few nodes that go with them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/exchange/agreement_record.h"
#include "trireme/ir/builder.h"

namespace trireme {

class OwnStates {
 public:
  // On a mesh that has ranks along the axis data alone.
  OwnStates(const Mesh& mesh, int rank);

  int64_t ranks() const { return ranks_; }
  int64_t rank() const { return rank_; }

  enum class Of { kRank, kAll };  // each rank has its own; or all have the same
  // A state [1, …] for another one, and one [1] that starts at zero or at one.
  ValueId keep(Builder& b, std::string_view what, const Value& of, Of whose = Of::kRank);
  ValueId keep(Builder& b, std::string_view what, Of whose, const char* start = "zeros");

  KeptStates take() { return std::exchange(kept_, {}); }

 private:
  ValueId keep_named(Builder& b, const std::string& name, const Shape& shape, Of whose, const char* start);

  const Mesh& mesh_;
  int axis_;
  int64_t ranks_ = 1, rank_ = 0;
  KeptStates kept_;
};

// A rank's graph without sums over the ranks along data: what it has made itself is all there is.
// kSumsOfBuffers: without those alone that make what buffers become (Role::kPending).
enum class LeftOut { kAllSums, kSumsOfBuffers };
Graph without_sums(const Graph& graph, LeftOut which, const OpTable& ops);
// Throws the Error for an exchange whose ranks compute by themselves while a layout joins `value` over them.
[[noreturn]] void refuse_joint(std::string_view value);

// […] as [1, …], and back.
ValueId in_row(Builder& b, ValueId value);
ValueId out_of_row(Builder& b, ValueId value);

}  // namespace trireme

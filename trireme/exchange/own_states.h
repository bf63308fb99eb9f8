// States that replicas keep which go on by themselves for some steps: a first dim of 1, of which all replicas
// have one each, so that checkpoints know them as they know residuals. A replica is the ranks of one place
// along replica_axis(); each of them has the same part of such a state as of the state that it goes with. And
// the few nodes that go with them.
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
  explicit OwnStates(const AgreeingRank& rank);  // which outlives it

  int64_t replicas() const { return replicas_; }
  int64_t replica() const { return replica_; }
  // The rank of the job that has in another replica what this one has here.
  int rank_in(int64_t replica) const { return place_.members[static_cast<size_t>(replica)]; }
  // Adds up over the replicas what ranks have of a state, or what was made of it.
  ValueId summed(Builder& b, ValueId value, const Value* of = nullptr) const;
  // Whether ranks of the same replica have the same elements of a state; and whether those are of other
  // stages.
  bool is_alike(const Value& state) const;
  bool is_shared(const Value& state) const { return place_.shared.contains(state.name); }

  enum class Of { kReplica, kAll };  // each replica has its own; or all have the same
  // A state [1, …] for another one, and one [1] that starts at zero or at one.
  ValueId keep(Builder& b, std::string_view what, const Value& of, Of whose = Of::kReplica);
  ValueId keep(Builder& b, std::string_view what, Of whose, const char* start = "zeros");

  KeptStates take() { return std::exchange(kept_, {}); }

 private:
  const KeptState& lying(const Value& state) const { return place_.states.at(state.name); }
  bool is_even(const Value& state) const;  // whether all ranks have parts of one size
  // `together`: what it goes with, as all ranks have that.
  ValueId keep_named(Builder& b, const std::string& name, const Shape& shape, const KeptState& together,
                     Of whose, const char* start);

  const AgreeingRank& place_;
  int axis_;
  int64_t replicas_ = 1, replica_ = 0;
  KeptStates kept_;
};

// A rank's graph without sums over the replicas along `axis`: what its own has made is all there is.
// kSumsOfBuffers: without those alone that make what buffers become (Role::kPending).
enum class LeftOut { kAllSums, kSumsOfBuffers };
Graph without_sums(const Graph& graph, std::string_view axis, LeftOut which, const OpTable& ops);
// Throws the Error for an exchange whose ranks compute by themselves while a layout joins `value` over them.
[[noreturn]] void refuse_joint(std::string_view value);

// […] as [1, …], and back.
ValueId in_row(Builder& b, ValueId value);
ValueId out_of_row(Builder& b, ValueId value);

}  // namespace trireme

// See own_states.h.
#include "trireme/exchange/own_states.h"

#include "trireme/exchange/method.h"
#include "trireme/exchange/packed.h"
#include "trireme/schedule/schedule.h"

namespace trireme {

OwnStates::OwnStates(const Mesh& mesh, int rank) : mesh_(mesh), axis_(mesh.find(kReplicaAxis)) {
  ranks_ = mesh.axes()[axis_].size;
  rank_ = mesh.coordinate(rank, axis_);
}

ValueId OwnStates::keep(Builder& b, std::string_view what, const Value& of, Of whose) {
  return keep_named(b, fmt::format("{}{}.{}", kKeptPrefix, what, of.name), of.type.shape, whose, "zeros");
}
ValueId OwnStates::keep(Builder& b, std::string_view what, Of whose, const char* start) {
  return keep_named(b, fmt::format("{}{}", kKeptPrefix, what), Shape{}, whose, start);
}

ValueId OwnStates::keep_named(Builder& b, const std::string& name, const Shape& shape, Of whose,
                              const char* start) {
  if (const ValueId known = b.graph().find(name); known != kNoValue) return known;
  Shape one{1};
  for (const int64_t extent : shape) one.push_back(extent);
  KeptState state{one, replicated(mesh_)};
  if (whose == Of::kRank) {
    state.layout[axis_] = Placement::split(0);
    state.whole.set(0, ranks_);
  }
  kept_[name] = state;
  return b.state(name, {DType::f32, one}, Role::kResidual, {{"init", start}});
}

ValueId in_row(Builder& b, ValueId value) {
  std::vector<int64_t> shape = {1};
  for (const int64_t extent : b.shape(value)) shape.push_back(extent);
  return reshaped(b, value, shape);
}
ValueId out_of_row(Builder& b, ValueId value) {
  const Shape& shape = b.shape(value);
  return reshaped(b, value, {shape.begin() + 1, shape.end()});
}

}  // namespace trireme

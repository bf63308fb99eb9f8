// The parts of a program builder that are about plans with servers (exchange/served.cc).
#include <algorithm>
#include <set>
#include <utility>

#include "trireme/program/build.h"

namespace trireme {

std::vector<Graph> ProgramBuilder::updates() const {
  std::vector<Graph> result;
  for (const StepSegment& segment : whole_) {
    if (segment.kind == SegmentKind::kUpdate) result.push_back(segment.graph);
  }
  return result;
}

// A server has its update, whole, and the first one the evaluation; a worker what makes gradients.
ProgramBuilder::RankPart ProgramBuilder::server_part(int number, const Schedule& schedule) const {
  RankPart result;
  const std::vector<Graph> all = updates();
  AgreedSteps steps = served_steps(all, number);
  result.step = std::move(*steps.step);
  int update = 0;
  for (const StepSegment& segment : whole_) {
    const bool updates = segment.kind == SegmentKind::kUpdate && update++ == number,
               evaluates = segment.kind == SegmentKind::kEvaluate && number == kLeadingServer;
    if (!updates && !evaluates) continue;
    if (evaluates) result.evaluation = schedule.evaluation;
    result.segments.emplace_back(optimized(segment.graph), segment.kind, segment.rows);
    result.layouts.emplace_back();
  }
  add_agreed(result, steps, number);
  note_remote_states(result);
  for (size_t server = 0; all.size() > 1 && server < all.size(); ++server) {
    for (const Value& value : all[server].values) {
      if (!is_lasting(value.role)) continue;
      StatePart& part = result.states[value.name] = state_part(value.type.shape, {}, {}, 0);
      part.stages = {static_cast<int>(server)};
    }
  }
  return result;
}

void ProgramBuilder::keep_gradients_alone(RankPart& part, int rank) const {
  part.evaluation.clear();
  for (size_t s = whole_.size(); s-- > 0;) {
    if (whole_[s].kind == SegmentKind::kForwardBackward) continue;
    part.segments.erase(part.segments.begin() + static_cast<ptrdiff_t>(s));
    part.layouts.erase(part.layouts.begin() + static_cast<ptrdiff_t>(s));
  }
  std::erase_if(part.step, [&](const Action& action) {
    return kind_of_run(whole_, action) != SegmentKind::kForwardBackward;
  });
  AgreedSteps steps = served_steps(updates(), rank);
  add_agreed(part, steps, rank);
  note_remote_states(part);
}

// States that last and that other ranks alone have.
void ProgramBuilder::note_remote_states(RankPart& part) const {
  std::set<std::string_view> here;
  for (const std::vector<StepSegment>* segments : {&part.segments, &part.agreeing}) {
    for (const StepSegment& segment : *segments) {
      for (const Value& value : segment.graph.values) here.insert(value.name);
    }
  }
  for (const StepSegment& segment : whole_) {
    for (const Value& value : segment.graph.values) {
      if (is_lasting(value.role) && here.insert(value.name).second) part.remote_states.push_back(value);
    }
  }
}

}  // namespace trireme

// The parts of a program builder that are about the stages of a pipeline (stages.h).
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "trireme/ops/table.h"
#include "trireme/passes/bucket.h"
#include "trireme/passes/prune.h"
#include "trireme/passes/rounds.h"
#include "trireme/passes/second_holder.h"
#include "trireme/program/build.h"
#include "trireme/program/stages.h"

namespace trireme {
namespace {

// Another state lies as one does, in all segments.
void note_layouts_like(const std::string& one, const std::string& other, std::vector<NamedLayouts>& layouts) {
  for (NamedLayouts& of_segment : layouts) {
    if (const auto known = of_segment.find(one); known != of_segment.end()) of_segment[other] = known->second;
  }
}

// Shifts name ranks, which before the cut are those of one stage.
Graph with_ranks_of_mesh(Graph graph, const Mesh& mesh, int rank) {
  for (Node& node : graph.nodes) {
    if (!node.op->collective || node.op->collective->kind != CollectiveKind::kShift) continue;
    const int axis = mesh.axis(node.attrs.text("axis"));
    const std::vector<int> members = mesh.members(rank, axis);
    const size_t ways = members.size(), own = static_cast<size_t>(mesh.coordinate(rank, axis));
    node.attrs.set("to", int64_t{members[(own + 1) % ways]});
    node.attrs.set("from", int64_t{members[(own + ways - 1) % ways]});
  }
  return graph;
}

}  // namespace

struct ProgramBuilder::InStages {
  int in_stage;
  RankPart whole;
  Stages stages;

  InStages(int number, RankPart part, const Pipeline& pipeline, const Cut& cut, const Plan& plan)
      : in_stage(number),
        whole(pruned(std::move(part))),
        stages(whole.segments, pipeline, cut,
               {plan.mesh, number, whole.layouts, plan.boundaries.value_or(Plan::Boundaries::kWhole)}) {}

  // What nobody needs would be sent.
  static RankPart pruned(RankPart part) {
    for (StepSegment& segment : part.segments) segment.graph = prune(segment.graph);
    return part;
  }
};

const ProgramBuilder::InStages& ProgramBuilder::in_stages(int in_stage) const {
  std::shared_ptr<const InStages>& kept = in_stage == 0 ? leading_ : latest_;
  if (!kept || kept->in_stage != in_stage)
    kept =
        std::make_shared<const InStages>(in_stage, before_cut(in_stage, {}), *pipeline_, cut_, stage_plan_);
  return *kept;
}

// Of whole segments, the pieces that the rank's stage has.
ProgramBuilder::RankPart ProgramBuilder::stage_part(int rank) const {
  const int axis = plan_.mesh.find(kPipeAxis), number = axis < 0 ? 0 : plan_.mesh.coordinate(rank, axis);
  const std::vector<int> peers = axis < 0 ? std::vector<int>{rank} : plan_.mesh.members(rank, axis);
  const InStages &leader = in_stages(0), &mine = in_stages(plan_.rank_in_stage(rank));
  Stage own = mine.stages.stage(number, peers);
  Stage of_leader = &leader == &mine ? Stage() : leader.stages.stage(number, peers);
  Stage& leading = &leader == &mine ? own : of_leader;
  std::map<std::string, std::string> kept_of;  // by replicas that go on by themselves
  RankPart part{
      .states = mine.whole.states, .step = own.step, .evaluation = own.evaluation, .fill = own.fill};
  part.slots = std::move(own.slots);
  for (size_t i = 0; i < own.parts.size(); ++i) {
    StepSegment &segment = own.parts[i].segment, &leads = leading.parts[i].segment;
    if (agrees_ && segment.kind == SegmentKind::kUpdate) {
      const StateStages& stages = mine.stages.state_stages();
      AgreedSteps steps = agreed_steps(segment.graph, rank, stages);
      if (&leads != &segment) leads.graph = *agreed_steps(leads.graph, rank, stages).update;
      segment.graph = std::move(*steps.update);
      for (const auto& [name, state] : steps.kept) kept_of[name] = state.of;
      add_agreed(part, steps, rank);
    }
    const NamedLayouts& layouts = mine.whole.layouts[own.parts[i].of];
    if (plan_.offload && segment.kind == SegmentKind::kUpdate) {
      ChunksInFiles chunks;
      if (plan_.offload->cuts_model()) chunks = {cut_.chunks, mine.stages.parameter_chunks()};
      add_update(part, segment, leads.graph, layouts, chunks);
      continue;
    }
    const auto prepared = [](const StepSegment& of) {
      Graph graph = optimized(of.graph);
      return of.kind == SegmentKind::kUpdate ? in_rounds(graph) : graph;
    };
    const Graph graph = with_ranks_of_mesh(prepared(segment), plan_.mesh, rank);
    part.segments.emplace_back(bucketed(graph, &segment == &leads ? graph : prepared(leads)), segment.kind,
                               segment.rows);
    part.layouts.push_back(layouts);
  }
  for (const std::string& name : mine.stages.replicated_gradients()) {
    part.states[second_name(name)] = part.states.at(name);
    note_layouts_like(name, second_name(name), part.layouts);
  }
  for (const auto& [name, holders] : mine.stages.state_stages()) {
    const auto known = part.states.find(name);
    if (axis >= 0 && known != part.states.end()) known->second.stages = holders;
  }
  // What replicas keep beside a state is where that is; what they keep besides, all stages have.
  for (const auto& [name, of] : kept_of) {
    std::vector<int>& holders = part.states.at(name).stages;
    if (!of.empty()) holders = part.states.at(of).stages;
    if (of.empty()) holders.resize(peers.size()), std::iota(holders.begin(), holders.end(), 0);
  }
  for (const Stage::Part& piece : own.parts) {
    for (const Value& value : piece.segment.graph.values) {
      if (value.role != Role::kVersion) continue;
      const std::string of(value.attrs.text("of"));
      part.states[value.name] = part.states.at(of);
      note_layouts_like(of, value.name, part.layouts);
    }
  }
  std::set<std::string_view> seen;
  for (const StepSegment& segment : whole_) {
    for (const Value& value : segment.graph.values) {
      if (axis < 0 || !is_lasting(value.role) || !seen.insert(value.name).second) continue;
      const std::vector<int>& holders = part.states.at(value.name).stages;
      if (!std::ranges::binary_search(holders, number)) part.remote_states.push_back(value);
    }
  }
  return part;
}

}  // namespace trireme

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

// Of a whole segment's layouts, those of the values of a piece: a pipeline of many stages would else copy all
// of them for each.
NamedLayouts layouts_of(const Graph& piece, const NamedLayouts& whole) {
  NamedLayouts result;
  for (const Value& value : piece.values) {
    if (const auto known = whole.find(value.name); known != whole.end()) result.insert(*known);
  }
  return result;
}

// States that outlive a step, each once.
std::vector<const Value*> lasting_states(const std::vector<StepSegment>& segments) {
  std::set<std::string_view> seen;
  std::vector<const Value*> result;
  for (const StepSegment& segment : segments) {
    for (const Value& value : segment.graph.values) {
      if (is_lasting(value.role) && seen.insert(value.name).second) result.push_back(&value);
    }
  }
  return result;
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
  std::vector<const Value*> lasting;

  InStages(int number, RankPart part, const Pipeline& pipeline, const SpreadStep& step, const Plan& plan)
      : in_stage(number),
        whole(pruned(std::move(part))),
        stages(whole.segments, pipeline, step.cut,
               {plan.mesh, number, whole.layouts, plan.boundaries.value_or(Plan::Boundaries::kWhole)}),
        lasting(lasting_states(step.whole)) {}

  // What nobody needs would be sent.
  static RankPart pruned(RankPart part) {
    for (StepSegment& segment : part.segments) segment.graph = prune(std::move(segment.graph));
    return part;
  }
};

const ProgramBuilder::InStages& ProgramBuilder::in_stages(int in_stage) const {
  std::shared_ptr<const InStages>& kept = in_stage == 0 ? leading_ : latest_;
  if (!kept || kept->in_stage != in_stage)
    kept = std::make_shared<const InStages>(in_stage, before_cut(in_stage, {}), *pipeline_, *spread_,
                                            stage_plan_);
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
  std::vector<const NamedLayouts*> whole_layouts;  // of the segments that part.layouts are of pieces of
  std::map<std::string, std::string> kept_of;      // by replicas that go on by themselves
  RankPart part{.step = own.step, .evaluation = own.evaluation, .fill = own.fill};
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
      if (plan_.offload->cuts_model()) chunks = {spread_->cut.chunks, mine.stages.parameter_chunks()};
      add_update(part, segment, leads.graph, layouts, chunks);
      whole_layouts.resize(part.layouts.size(), &layouts);
      continue;
    }
    const auto prepared = [](const StepSegment& of) {
      Graph graph = optimized(of.graph);
      return of.kind == SegmentKind::kUpdate ? in_rounds(graph) : graph;
    };
    const Graph graph = with_ranks_of_mesh(prepared(segment), plan_.mesh, rank);
    part.segments.emplace_back(bucketed(graph, &segment == &leads ? graph : prepared(leads)), segment.kind,
                               segment.rows);
    part.layouts.push_back(layouts_of(part.segments.back().graph, layouts));
    whole_layouts.push_back(&layouts);
  }
  // Another state lies as one does, in all segments.
  const auto add_state_like = [&](const std::string& one, const std::string& other) {
    part.states[other] = mine.whole.states.at(one);
    for (size_t i = 0; i < part.layouts.size(); ++i) {
      const auto known = whole_layouts[i]->find(one);
      if (known != whole_layouts[i]->end()) part.layouts[i][other] = known->second;
    }
  };
  for (const std::string& name : mine.stages.replicated_gradients()) add_state_like(name, second_name(name));
  std::vector<std::pair<std::string, std::string>> versions;  // and what they are of
  for (const std::vector<StepSegment>* segments : {&part.segments, &part.agreeing}) {
    for (const StepSegment& segment : *segments) {
      for (const Value& value : segment.graph.values) {
        if (value.role == Role::kVersion) versions.emplace_back(value.name, value.attrs.text("of", ""));
        const auto known = mine.whole.states.find(value.name);
        if (known != mine.whole.states.end()) part.states.insert(*known);
      }
    }
  }
  for (const auto& [name, of] : versions) add_state_like(of, name);
  const StateStages& holders = mine.stages.state_stages();
  const auto note_holders = [&](const std::string& name, const std::string& of) {
    const auto known = holders.find(of);
    if (axis >= 0 && known != holders.end()) part.states.at(name).stages = known->second;
  };
  for (const auto& [name, state] : part.states) note_holders(name, name);
  for (const auto& [name, of] : versions) note_holders(name, of);
  // What replicas keep beside a state is where that is; what they keep besides, all stages have.
  for (const auto& [name, of] : kept_of) {
    std::vector<int>& all = part.states.at(name).stages;
    if (of.empty())
      all.resize(peers.size()), std::iota(all.begin(), all.end(), 0);
    else
      note_holders(name, of);
  }
  for (const Value* const value : mine.lasting) {
    const auto known = holders.find(value->name);
    if (axis >= 0 && (known == holders.end() || !std::ranges::binary_search(known->second, number)))
      part.remote_states.push_back(*value);
  }
  return part;
}

}  // namespace trireme

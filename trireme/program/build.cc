// Segment -> pins -> expand -> spread (once) -> partition -> ring -> recompute -> exchange, or local steps ->
// stage
// -> fuse -> rounds -> bucket -> memory (for each rank). What is about stages stands in build_stages.cc,
// about servers in build_served.cc.
#include "trireme/program/build.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/exchange/choice.h"
#include "trireme/exchange/own_states.h"
#include "trireme/ir/equal.h"
#include "trireme/ir/scope.h"
#include "trireme/ops/table.h"
#include "trireme/passes/bucket.h"
#include "trireme/passes/exchange.h"
#include "trireme/passes/expand.h"
#include "trireme/passes/fuse.h"
#include "trireme/passes/plan_check.h"
#include "trireme/passes/prune.h"
#include "trireme/passes/recompute.h"
#include "trireme/passes/ring.h"
#include "trireme/passes/rounds.h"
#include "trireme/plan/combinations.h"
#include "trireme/program/file_groups.h"
#include "trireme/program/file_turns.h"
#include "trireme/program/stages.h"
#include "trireme/schedule/pipeline_table.h"

namespace trireme {
namespace {

// Of a segment's batch; 0 where it takes none.
int64_t rows_of(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.role == Role::kBatch) return value.type.shape[0];
  }
  return 0;
}

int64_t parameters_of(const std::vector<StepSegment>& segments) {
  std::map<std::string_view, int64_t> elements;
  for (const StepSegment& segment : segments) {
    for (const Value& value : segment.graph.values) {
      if (value.role == Role::kParameter) elements[value.name] = value.type.shape.elements();
    }
  }
  int64_t total = 0;
  for (const auto& [name, count] : elements) total += count;
  return total;
}

bool is_own(const StepSegment& segment) {
  return segment.rows == Rows::kOfOneRank;
}

// Of a replica that goes on by itself, or a rank whose gradients go to a server.
void check_alone(const Graph& forward, std::string_view axis) {
  for (const Node& node : forward.nodes) {
    if (node.op->collective && node.attrs.text("axis", "") == axis)
      refuse_joint(forward.values[node.outputs[0]].name);
  }
}

std::vector<bool> to_make_again(const Plan& plan, const StepSegment& segment, const Graph& graph) {
  const bool has_backward = segment.kind == SegmentKind::kForwardBackward;
  return values_made_again(graph, has_backward && plan.recompute ? *plan.recompute : Recompute());
}

// What is made again lies as it did before.
void note_layouts_again(const Graph& graph, NamedLayouts& layouts) {
  for (const Value& value : graph.values) {
    if (value.kind != Value::Kind::kResult || layouts.contains(value.name)) continue;
    if (const auto before = layouts.find(name_before(value.name)); before != layouts.end())
      layouts.emplace(value.name, before->second);
  }
}

Graph in_order(Graph graph, SegmentKind kind) {
  return kind == SegmentKind::kUpdate ? in_rounds(graph) : std::move(graph);
}

}  // namespace

Graph optimized(const Graph& graph) {
  return prune(fuse(graph, ops()));
}

namespace {

// These ask the plan itself how ranks agree: that of one stage knows of no servers. `mesh` is of a stage.
bool goes_alone(const Plan& plan, const Mesh& mesh, const StepSegment& segment) {
  const bool served = record_of(plan.agreement).states == AgreementRecord::States::kServed;
  return mesh.ranks() == 1 || is_own(segment) || (served && segment.kind != SegmentKind::kForwardBackward);
}

// Whether replicas go on by themselves, or servers are between them.
bool agrees_between_steps(const Plan& plan, const Mesh& mesh) {
  return record_of(plan.agreement).steps && (plan.agreement.servers() || replicas_of(mesh) > 1);
}

bool exchanges(const Plan& plan, const Mesh& mesh) {
  return mesh.ranks() > 1 && !plan.agreement.is_dense();
}

// Where ranks go on by themselves, each keeps the running statistics that it has made.
Graph of_rank(const Plan& plan, const Mesh& mesh, const StepSegment& segment, Graph local) {
  if (!agrees_between_steps(plan, mesh) || segment.kind != SegmentKind::kForwardBackward) return local;
  return without_sums(local, replica_axis(mesh), LeftOut::kSumsOfBuffers, ops());
}

void check_features(const Plan& plan, const std::vector<StepSegment>& whole) {
  Features features = features_of(plan);
  if (std::ranges::any_of(whole, is_own)) features.insert(Feature::kShards);
  if (others_share_batch(plan)) features.insert(Feature::kSharedBatch);
  check_combinations(features);
}

// One rank's part of a graph, as it lies and as attention gets on with that.
Graph local_graph(const Plan& plan, const SpreadStep::Segment& of_all, int rank, NamedLayouts& layouts) {
  const auto& [graph, pins, spread, leader, leader_layouts] = of_all;
  Graph local = partition(graph, plan.mesh, pins, spread, rank, ops(), &layouts);
  const Preset* context = plan.preset_over("context");
  if (!context || context->sequences != Sequences::kRing) return local;
  return ring(local, plan.mesh, context->axis, rank, ops());
}

bool is_asynchronous(const Plan& plan, int64_t microbatches) {
  return plan.pipeline_stages() > 1 && is_asynchronous(pipeline_of(plan, microbatches));
}

// A plan with nothing of what a step is spread without; empty where steps are made for the plan alone.
std::string spread_by(Plan plan, int64_t microbatches) {
  if (plan.offload || !plan.agreement.is_dense() || is_asynchronous(plan, microbatches)) return "";
  plan.recompute.reset();
  plan.schedule.reset();
  plan.boundaries.reset();
  plan.bucket_kib.reset();
  return to_json(plan);
}

// A pipeline's stages reduce gradients in the update, after all backward parts. Methods of exchange compress
// them once a step, there too. Where there is an axis replica, that is for sums over it alone
// (passes/pins.h).
Microbatches microbatches_of(const Plan& plan, int64_t microbatches) {
  const Mesh mesh = plan.of_one_stage().mesh;
  return microbatches > 1 || plan.cuts_model() || (exchanges(plan, mesh) && replica_axis(mesh) == kDataAxis)
             ? Microbatches::kSeveral
             : Microbatches::kOne;
}

// Of a stage: without where the model is cut, too.
std::string spread_in_stage_by(const Plan& plan, int64_t microbatches) {
  Plan stage = plan.of_one_stage();
  stage.accumulate.reset();
  stage.chunks.reset();
  stage.stages.clear();
  const std::string by = spread_by(plan, microbatches).empty() ? "" : spread_by(stage, 1);
  return by.empty() || microbatches_of(plan, microbatches) == Microbatches::kOne ? by : "several " + by;
}

bool are_equal(const std::vector<StepSegment>& a, const std::vector<StepSegment>& b) {
  return std::ranges::equal(a, b, [](const StepSegment& one, const StepSegment& other) {
    return one.kind == other.kind && one.rows == other.rows && trireme::are_equal(one.graph, other.graph);
  });
}

}  // namespace

SpreadStep::SpreadStep(std::vector<StepSegment> whole_in, const Plan& plan, int64_t microbatches, Cut cut_in,
                       std::span<const std::shared_ptr<const SpreadStep>> before)
    : whole(std::move(whole_in)),
      cut(std::move(cut_in)),
      microbatches_(microbatches),
      by_(spread_by(plan, microbatches)),
      by_in_stage_(spread_in_stage_by(plan, microbatches)) {
  check_features(plan, whole);
  if (std::ranges::none_of(whole, is_own)) check_plan(plan.of_one_stage(), whole);
  const auto same = std::ranges::find_if(before, [&](const std::shared_ptr<const SpreadStep>& other) {
    return !by_in_stage_.empty() && other->by_in_stage_ == by_in_stage_ && are_equal(other->whole, whole);
  });
  segments_ = same != before.end() ? (*same)->segments_
                                   : std::make_shared<const Segments>(spread_in_stage(plan, microbatches));
}

SpreadStep::Segments SpreadStep::spread_in_stage(const Plan& plan, int64_t microbatches) const {
  const Plan stage_plan = plan.of_one_stage();
  const Mesh& mesh = stage_plan.mesh;
  const Microbatches several = microbatches_of(plan, microbatches);
  Segments segments;
  for (const StepSegment& segment : whole) {
    std::optional<Segment>& spread_one = segments.emplace_back();
    if (goes_alone(plan, mesh, segment)) continue;
    Pins pins = pins_of(stage_plan, segment.graph, segment.kind, several);
    // All microbatches of a step are spread alike: the next ones only add to what the first one left.
    std::optional<Alike> first;
    if (segment.kind == SegmentKind::kForwardBackward && segments.front())
      first.emplace(Alike{segments.front()->graph, segments.front()->spread});
    const Alike* alike = first ? &*first : nullptr;
    Graph graph = expand(segment.graph, mesh, pins, ops(), alike);
    Spread spread = trireme::spread(graph, mesh, pins, alike);
    spread_one = Segment{std::move(graph), std::move(pins), std::move(spread), {}, {}};
    spread_one->leader = of_rank(
        plan, mesh, segment, local_graph(stage_plan, *spread_one, /*rank=*/0, spread_one->leader_layouts));
    if (agrees_between_steps(plan, mesh) && segment.kind == SegmentKind::kForwardBackward)
      check_alone(spread_one->leader, replica_axis(mesh));
  }
  return segments;
}

bool SpreadStep::serves(const Plan& plan, int64_t microbatches) const {
  if (by_.empty() || microbatches != microbatches_ || spread_by(plan, microbatches) != by_) return false;
  return plan.pipeline_stages() == 1 || pipeline_of(plan, microbatches).chunks == cut.chunks;
}

ProgramBuilder::ProgramBuilder(std::shared_ptr<const SpreadStep> step, const Plan& plan, int64_t microbatches)
    : spread_(std::move(step)),
      whole_(spread_->whole),
      plan_(plan),
      stage_plan_(plan.of_one_stage()),
      record_(record_of(plan.agreement)),
      agrees_(agrees_between_steps(plan, stage_plan_.mesh)) {
  check_features(plan_, whole_);
  if (plan_.pipeline_stages() > 1)
    pipeline_ = pipeline_of(plan_, microbatches);
  else if (plan_.cuts_model())
    pipeline_ = one_stage(spread_->cut.chunks, microbatches);
  const bool compresses = exchanges(plan_, stage_plan_.mesh);
  if (compresses && pipeline_) stages_ = stages_of_parameters(whole_.front().graph, spread_->cut, *pipeline_);
  const std::vector<int64_t> early_steps = early_ends(exchange_choices(plan_.agreement));
  for (size_t s = 0; s < whole_.size(); ++s) {
    const StepSegment& segment = whole_[s];
    const std::optional<SpreadStep::Segment>& of_all = spread_->segments()[s];
    Common& common = common_.emplace_back();
    again_.push_back(to_make_again(plan_, segment, of_all ? of_all->leader : segment.graph));
    if (!of_all || (pipeline_ && !compresses)) continue;  // of a pipeline it is cut first
    Graph leader = recompute(of_all->leader, again_.back());
    if (compresses && segment.kind == SegmentKind::kUpdate) {
      for (const int64_t until : early_steps)
        common.early[until] = optimized(exchange(leader, of_all->graph, stage_plan_, of_all->pins, /*rank=*/0,
                                                 ops(), stages_, nullptr, until));
      if (!record_.steps && !pipeline_)
        leader = exchange(leader, of_all->graph, stage_plan_, of_all->pins, /*rank=*/0, ops(), stages_);
    }
    if (pipeline_) continue;
    if (agrees_ && segment.kind == SegmentKind::kUpdate) leader = *agreed_steps(leader, /*rank=*/0).update;
    common.leader = plan_.offload && segment.kind == SegmentKind::kUpdate
                        ? std::move(leader)
                        : in_order(optimized(leader), segment.kind);
  }
}

// Of one rank of a stage; of a pipeline, not yet cut.
ProgramBuilder::RankPart ProgramBuilder::before_cut(int in_stage, const Schedule& schedule) const {
  RankPart result{.step = schedule.step, .evaluation = schedule.evaluation};
  for (size_t s = 0; s < whole_.size(); ++s) {
    const StepSegment& segment = whole_[s];
    NamedLayouts& layouts = result.layouts.emplace_back();
    if (!spread_->segments()[s]) {
      result.segments.emplace_back(recompute(segment.graph, again_[s]), segment.kind, segment.rows);
      for (const Value& value : segment.graph.values) {
        if (pipeline_ && value.kind == Value::Kind::kState)
          result.states[value.name] = state_part(value.type.shape, {}, {}, 0);
      }
      continue;
    }
    const auto& [graph, pins, spread, leader, leader_layouts] = *spread_->segments()[s];
    const Mesh& mesh = stage_plan_.mesh;
    if (in_stage == 0) {
      layouts = leader_layouts;
      result.segments.emplace_back(recompute(leader, again_[s]), segment.kind, segment.rows);
    } else {
      const Graph local =
          of_rank(plan_, mesh, segment, local_graph(stage_plan_, *spread_->segments()[s], in_stage, layouts));
      result.segments.emplace_back(recompute(local, again_[s]), segment.kind, segment.rows);
    }
    if (segment.kind == SegmentKind::kUpdate) {
      Graph& update = result.segments.back().graph;
      if (!record_.steps) {
        KeptStates kept;
        add_early_updates(result, update, s, in_stage, kept);
        update = exchange(update, graph, stage_plan_, pins, in_stage, ops(), stages_, &kept);
        for (const auto& [name, state] : kept)
          result.states[name] = state_part(state.whole, state.layout, mesh, in_stage);
      } else if (agrees_ && !pipeline_) {
        AgreedSteps steps = agreed_steps(update, in_stage);
        update = std::move(*steps.update);
        add_agreed(result, steps, in_stage);
      }
    }
    if (plan_.recompute) note_layouts_again(result.segments.back().graph, layouts);
    for (const Value& value : graph.values) {
      if (value.kind != Value::Kind::kState) continue;
      const Layout rest = state_layout(pins, value, mesh).rest;
      result.states[value.name] = state_part(value.type.shape, rest, mesh, in_stage);
    }
  }
  return result;
}

ProgramBuilder::RankPart ProgramBuilder::part(int rank, const Schedule& schedule) const {
  if (pipeline_) return stage_part(rank);
  const StepHalf half = step_half(plan_.agreement, rank);
  if (half == StepHalf::kUpdate) return server_part(rank, schedule);
  RankPart result = before_cut(plan_.rank_in_stage(rank), schedule);
  const std::vector<StepSegment> local = std::exchange(result.segments, {});
  const std::vector<NamedLayouts> layouts = std::exchange(result.layouts, {});
  for (size_t s = 0; s < whole_.size(); ++s) {
    if (plan_.offload && local[s].kind == SegmentKind::kUpdate) {
      add_update(result, local[s], spread_->segments()[s] ? common_[s].leader : local[s].graph, layouts[s],
                 {});
      continue;
    }
    StepSegment& segment = result.segments.emplace_back(local[s]);
    segment.graph = in_order(optimized(segment.graph), segment.kind);
    if (spread_->segments()[s]) segment.graph = bucketed(segment.graph, common_[s].leader);
    result.layouts.push_back(layouts[s]);
  }
  if (half == StepHalf::kGradients) keep_gradients_alone(result, rank);
  return result;
}

Graph ProgramBuilder::bucketed(const Graph& graph, const Graph& leader) const {
  BucketOptions options;
  if (plan_.bucket_kib) options.bytes = static_cast<size_t>(*plan_.bucket_kib) << 10;
  return bucket(graph, leader, ops(), options);
}

// Each with a list that takes the place of the step's until then.
void ProgramBuilder::add_early_updates(RankPart& part, const Graph& update, size_t segment, int rank,
                                       KeptStates& kept) const {
  const SpreadStep::Segment& of_all = *spread_->segments()[segment];
  for (const auto& [until, leader] : common_[segment].early) {
    const Graph early = optimized(
        exchange(update, of_all.graph, stage_plan_, of_all.pins, rank, ops(), stages_, &kept, until));
    ActionList& list = part.lists.emplace_back();
    list.name = fmt::format("step_until_{}", until);
    list.when = When::until(until);
    list.actions = part.step;
    for (Action& action : list.actions) {
      if (action.kind == Action::Kind::kRun && action.what == update.name) action.what = early.name;
    }
    part.agreeing.emplace_back(bucketed(early, leader), SegmentKind::kUpdate);
  }
}

// How the states of the update lie at rest.
KeptStates ProgramBuilder::lying() const {
  KeptStates result;
  for (size_t s = 0; s < whole_.size(); ++s) {
    if (!spread_->segments()[s] || whole_[s].kind != SegmentKind::kUpdate) continue;
    const auto& [graph, pins, spread, leader, layouts] = *spread_->segments()[s];
    for (const Value& value : graph.values) {
      if (value.kind == Value::Kind::kState)
        result[value.name] = {value.type.shape, state_layout(pins, value, stage_plan_.mesh).rest, value.name};
    }
  }
  return result;
}

AgreedSteps ProgramBuilder::agreed_steps(const Graph& update, int rank, const StateStages& stages) const {
  AgreeingRank place{plan_.agreement, {&update, 1}, stage_plan_.mesh, plan_.rank_in_stage(rank), ops()};
  place.members = plan_.mesh.members(rank, plan_.mesh.axis(replica_axis(plan_.mesh)));
  place.states = lying();
  for (const auto& [name, holders] : stages) {
    if (holders.size() > 1) place.shared.insert(name);
  }
  return record_.steps(place);
}

AgreedSteps ProgramBuilder::served_steps(std::span<const Graph> updates, int rank) const {
  return record_.steps({plan_.agreement, updates, stage_plan_.mesh, rank, ops()});
}

// Those that ranks agree by come behind all others.
void ProgramBuilder::add_agreed(RankPart& part, AgreedSteps& steps, int rank) const {
  for (const auto& [name, state] : steps.kept)
    part.states[name] = state_part(state.whole, state.layout, stage_plan_.mesh, plan_.rank_in_stage(rank));
  for (const auto& [name, slots] : steps.slots) part.slots[name] = slots;
  for (StepSegment& segment : steps.segments) {
    const Graph made = optimized(segment.graph);
    segment.graph = bucketed(made, made);
    part.agreeing.push_back(std::move(segment));
  }
  part.lists = std::move(steps.lists);
}

// In parts, whose optimizer's states come from files and go back there.
void ProgramBuilder::add_update(RankPart& result, const StepSegment& update, const Graph& leader,
                                const NamedLayouts& layouts, const ChunksInFiles& chunks) const {
  const std::vector<UpdatePart> parts = split_update(update.graph, leader, ops(), chunks),
                                of_leader = split_update(leader, leader, ops(), chunks);
  FileGroups groups(*plan_.offload);
  std::vector<Action> runs;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Graph graph = bucketed(optimized(parts[i].graph), optimized(of_leader[i].graph));
    PartPieces pieces = in_pieces({graph, parts[i].states}, update.graph, ops());
    for (Graph& piece : pieces.graphs) {
      runs.push_back(Action::run(piece.name));
      groups.add_optimizer(piece.name, parts[i].states, pieces.rows);
      result.segments.emplace_back(std::move(piece), SegmentKind::kUpdate);
      result.layouts.push_back(layouts);
    }
    groups.add_kept(parts[i]);
  }
  groups.add_chunks(update.graph, chunks);
  const auto at = std::ranges::find(result.step, Action::run(update.graph.name));
  TRIREME_CHECK(at != result.step.end());
  result.step.insert(result.step.erase(at), runs.begin(), runs.end());
  result.in_files = groups.take();
}

// All segments of a list that take a batch take as many rows of it.
ActionList ProgramBuilder::with_rows(ActionList list, SegmentKind kind, int64_t microbatches,
                                     int rank) const {
  list.microbatches = microbatches;
  const bool serves = step_half(plan_.agreement, rank) == StepHalf::kUpdate;
  for (const StepSegment& segment : whole_) {
    const int64_t rows = segment.kind == kind ? rows_of(segment.graph) : 0;
    if (rows == 0 || list.actions.empty() || (serves && kind != SegmentKind::kEvaluate)) continue;
    TRIREME_CHECK((list.rows == 0 || list.rows == rows));
    list.rows = rows;
    list.own =
        is_own(segment) || serves ? Part{0, rows} : batch_rows(stage_plan_, rows, plan_.rank_in_stage(rank));
  }
  return list;
}

Program ProgramBuilder::assemble(RankPart local, int rank, const Schedule& schedule,
                                 const WorkspaceQuery& workspace) const {
  std::vector<ActionList> lists;
  const auto add = [&](ActionList list, SegmentKind kind) {
    lists.push_back(with_rows(std::move(list), kind, schedule.microbatches, rank));
  };
  add({"step", std::move(local.step), When::step()}, SegmentKind::kForwardBackward);
  add({"evaluate", std::move(local.evaluation), When::evaluate()}, SegmentKind::kEvaluate);
  if (!local.fill.empty()) add({"fill", std::move(local.fill), When::fill()}, SegmentKind::kForwardBackward);
  for (ActionList& agreeing : local.lists) {
    if (agreeing.when.kind == When::Kind::kUntil)
      add(std::move(agreeing), SegmentKind::kForwardBackward);  // the rows are the step's
    else
      lists.push_back(std::move(agreeing));
  }
  for (StepSegment& agreeing : local.agreeing) {
    local.segments.push_back(std::move(agreeing));
    local.layouts.emplace_back();
  }
  Program program = build_program(std::move(local.segments), workspace, local.states, local.slots,
                                  std::move(lists), local.in_files);
  program.mesh = plan_.mesh;
  program.rank = rank;
  program.sums = schedule.sums;
  program.parameters = parameters_of(whole_);
  program.remote_states = std::move(local.remote_states);
  for (size_t s = 0; s < program.segments.size(); ++s)
    program.segments[s].layouts = std::move(local.layouts[s]);
  if (!program.groups.empty()) {
    for (ActionList& each : program.lists) each.actions = with_file_turns(program, each.actions);
  }
  return program;
}

}  // namespace trireme

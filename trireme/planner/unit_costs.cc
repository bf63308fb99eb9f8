// See unit_costs.h.
#include "trireme/planner/unit_costs.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/plan/preset.h"
#include "trireme/planner/schedule_book.h"
#include "trireme/sim/track.h"

namespace trireme::planner {
namespace {

// Seconds of the collectives of a track along the axis tensor; others a plan decides on.
std::vector<double> meeting_seconds(const sim::Track& track, int axis, sim::CollectiveTimes& times) {
  std::vector<double> result;
  for (const sim::Meeting& meeting : track.meetings) {
    double& seconds = result.emplace_back(0);
    if (meeting.axis != axis) continue;
    for (const double bytes : meeting.calls)
      seconds += times.seconds(times.group_class(0, 0), meeting.kind, bytes);
  }
  return result;
}

// Whether the collectives of a unit by itself are those that it has among others.
enum class Meets { kCertainly, kPerhaps };

// A segment by itself: work in order, collectives one after another beside it.
Pass pass_of(const std::vector<sim::Item>& items, const std::vector<double>& meetings, Meets meets) {
  double now = 0, free = 0, work = 0, together = 0;
  std::vector<double> ends(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const sim::Item& item = items[i];
    switch (item.kind) {
      case sim::Item::Kind::kWork:
        work += item.work.seconds;
        now += std::max(item.work.seconds, item.work.from_issue);
        break;
      case sim::Item::Kind::kStart:
        ends[i] = free = std::max(now, free) + meetings[item.meeting];
        together += meetings[item.meeting];
        break;
      case sim::Item::Kind::kWait:
        now = std::max(now, ends[item.start]);
        break;
    }
  }
  return {.seconds = now, .least = meets == Meets::kCertainly ? std::max(work, together) : work};
}

// What a stage has of the step's parts. The last microbatch adds to what the others have left.
struct Parts {
  struct Part {
    const Segment* segment;
    int items;        // segment of the track
    int first_items;  // of the first microbatch, which has nothing to add to
  };
  std::map<std::string, Part> passes;  // by phase: "forward", "backward", "weight"; "" without a pipeline
  int update_items = -1;
};

Parts parts_of(const Program& program, const sim::Track& track) {
  Parts parts;
  const std::vector<Action>& actions = program.list(When::step()).actions;
  const std::vector<sim::TrackAction>& steps = track.lists[track.list(When::step())].actions;
  for (size_t a = 0; a < actions.size(); ++a) {
    if (actions[a].kind != Action::Kind::kRun) continue;
    const Segment& segment = program.segments[program.segment(actions[a].what)];
    const int items = steps[a].segment;
    if (segment.kind == SegmentKind::kUpdate) {
      parts.update_items = items;
      continue;
    }
    const size_t dot = actions[a].what.rfind('.');
    const std::string phase = dot == std::string::npos ? "" : actions[a].what.substr(dot + 1);
    const auto [part, is_first] = parts.passes.try_emplace(phase, Parts::Part{&segment, items, items});
    if (!is_first) part->second = {&segment, items, part->second.first_items};
  }
  return parts;
}

void add_states(UnitCost& cost, const Program& program, const Parts& parts, DType precision) {
  // What one part leaves for another of the same unit.
  std::map<std::string_view, int> readers;
  const auto forward = parts.passes.find(std::string(name(Phase::kForward)));
  std::set<std::string_view> of_forward;
  if (forward != parts.passes.end()) {
    for (const Value& value : forward->second.segment->graph.values) of_forward.insert(value.name);
  }
  for (const auto& [phase, part] : parts.passes) {
    for (const Value& value : part.segment->graph.values) {
      if (value.role != Role::kStash || ++readers[value.name] != 2) continue;
      const double bytes = static_cast<double>(program.find_state(value.name)->type.bytes());
      cost.kept_bytes += bytes;
      if (of_forward.contains(value.name)) cost.kept_forward_bytes += bytes;
    }
  }
  std::map<std::string, UnitCost::Weight> weights;
  for (const State& state : program.states) {
    const double bytes = static_cast<double>(state.type.bytes());
    // A chunk's own gradient of a shared weight is called after it, and so are moments.
    const std::string of(state.attrs.text("of", state.name));
    if (state.role == Role::kParameter) {
      weights[of].parameter_bytes += bytes;
      const double shorter = static_cast<double>(size_of(precision)) / size_of(state.type.dtype);
      weights[of].gathered_bytes += bytes * std::min(1.0, shorter);
    }
    // Of a weight that two stages read each has two sums, its own and that of both; a stage alone has one.
    if (state.role == Role::kGradient)
      weights[of].gradient_bytes = std::max(weights[of].gradient_bytes, bytes);
    if (state.role == Role::kOptimizer || state.role == Role::kMaster) weights[of].optimizer_bytes += bytes;
  }
  for (auto& [name, weight] : weights) {
    weight.name = name;
    cost.weights.push_back(weight);
  }
  for (const Segment& segment : program.segments) {
    if (segment.kind == SegmentKind::kForwardBackward)
      cost.working_bytes = std::max(cost.working_bytes, static_cast<double>(segment.memory.arena_bytes));
  }
}

// Of one microbatch, to another stage or from it.
double message_bytes(const Program& program, Action::Kind kind, int peer) {
  double bytes = 0;
  for (const Action& action : program.list(When::step()).actions) {
    if (action.kind == kind && action.peer == peer && action.slot == 0)
      bytes += static_cast<double>(program.find_state(action.what)->type.bytes());
  }
  return bytes;
}

// The same hosts, first those with devices of this class: the first ranks of a mesh are then on them.
Cluster beginning_with(const DeviceClass& device, Cluster cluster) {
  // Not of std::ranges: Clang 14 does not compile the subrange that it returns.
  std::stable_partition(cluster.hosts.begin(), cluster.hosts.end(),
                        [&](const HostClass& host) { return host.device == device.name; });
  return cluster;
}

// Updates are of weights: each takes a share by its bytes.
void share_update(UnitCost& cost, const std::vector<sim::Item>& items, const std::vector<double>& meetings,
                  Meets meets) {
  const double seconds = pass_of(items, meetings, meets).seconds;
  double bytes = 0;
  for (const UnitCost::Weight& weight : cost.weights) bytes += weight.parameter_bytes;
  for (UnitCost::Weight& weight : cost.weights)
    weight.update_seconds = bytes > 0 ? seconds * weight.parameter_bytes / bytes : 0;
}

// What a unit takes, by the Program of the stage that has it alone.
UnitCost times_of(const Program& program, const DeviceClass& device, sim::CollectiveTimes& times, Meets meets,
                  DType precision) {
  const sim::Track track = sim::track_of(program, device);
  const std::vector<double> meetings = meeting_seconds(track, program.mesh.axis("tensor"), times);
  const Parts parts = parts_of(program, track);
  UnitCost cost;
  for (const auto& [phase, part] : parts.passes) {
    const Pass pass = pass_of(track.segments[part.items], meetings, meets);
    Pass& sum = phase == name(Phase::kForward)  ? cost.forward
                : phase == name(Phase::kWeight) ? cost.weight
                                                : cost.backward;
    const double least =
        std::min(pass.least, pass_of(track.segments[part.first_items], meetings, meets).least);
    sum = {sum.seconds + pass.seconds, sum.least + least};
  }
  add_states(cost, program, parts, precision);
  if (parts.update_items >= 0) share_update(cost, track.segments[parts.update_items], meetings, meets);
  return cost;
}

// A unit by itself does a little more than among others: sums of a weight that two units read are made twice,
// and ops that could be one with those of the next unit are not. By the Program of the whole small model on
// one stage, bounds are brought down to what units take together. `kind` is, by unit of that model, the one
// that stands for all that are alike.
void bring_down(std::vector<UnitCost>& units, const std::vector<int>& kind, const UnitCost& whole) {
  double passes = 0, update = 0, whole_update = 0;
  std::map<std::string, double> updates;
  for (int unit = 0; unit < std::ssize(kind); ++unit) {
    const UnitCost& cost = units[kind[unit]];
    passes += cost.forward.least + cost.backward.least + cost.weight.least;
    for (const UnitCost::Weight& weight : cost.weights) {
      if (kind[unit] != unit) {
        update += weight.update_seconds;  // of a weight of its own
        continue;
      }
      const auto [known, is_new] = updates.try_emplace(weight.name, weight.update_seconds);
      known->second = std::min(known->second, weight.update_seconds);
    }
  }
  for (const auto& [name, seconds] : updates) update += seconds;
  for (const UnitCost::Weight& weight : whole.weights) whole_update += weight.update_seconds;
  const double whole_passes = whole.forward.least + whole.backward.least + whole.weight.least;
  for (UnitCost& unit : units) {
    for (Pass* const pass : {&unit.forward, &unit.backward, &unit.weight}) {
      // Which of them it is that takes less is not known: it is taken off twice.
      if (whole_passes < passes) pass->least *= std::max(0.0, 2 * whole_passes / passes - 1);
    }
    for (UnitCost::Weight& weight : unit.weights) {
      weight.update_seconds = std::min(weight.update_seconds, updates[weight.name]);
      if (whole_update < update) weight.update_seconds *= whole_update / update;
    }
  }
}

}  // namespace

Pass& Pass::operator+=(const Pass& other) {
  seconds += other.seconds;
  least += other.least;
  return *this;
}

UnitCost::Weight& UnitCost::Weight::operator+=(const Weight& other) {
  parameter_bytes += other.parameter_bytes;
  gradient_bytes += other.gradient_bytes;
  optimizer_bytes += other.optimizer_bytes;
  gathered_bytes += other.gathered_bytes;
  update_seconds += other.update_seconds;
  return *this;
}

std::vector<std::pair<std::string, Layout>> layouts_on(const Mesh& mesh, const LayoutTexts& texts) {
  std::vector<std::pair<std::string, Layout>> result;
  for (const auto& [pattern, text] : texts) result.emplace_back(pattern, parse_layout(text, mesh));
  return result;
}

int64_t Split::row_parts() const {
  const Preset* const found = find_preset(split(preset, '+').back());
  return tensor > 1 && found && found->rows == Preset::Rows::kShared ? tensor : 1;
}

UnitCosts::Table UnitCosts::measured(const Split& split) const {
  const int stages = static_cast<int>(subject_.small_units.size());
  Plan plan{.mesh = Mesh({{std::string(kPipeAxis), stages}, {"tensor", split.tensor}}),
            .preset = split.preset.empty() ? "data" : split.preset};
  plan.layouts = layouts_on(plan.mesh, split.layouts);
  if (stages > 1) plan.stages.assign(subject_.small_units.begin() + 1, subject_.small_units.end());
  plan.recompute = Recompute{split.recompute};
  plan.schedule = one_chunk_schedule(split.weights).name;
  constexpr int64_t kMicrobatches = 2;  // the first, and one like all others
  // Where ranks share rows, layouts change between units too.
  const bool certainly = split.layouts.empty() && split.row_parts() == 1;
  const Meets meets = certainly ? Meets::kCertainly : Meets::kPerhaps;
  Table table;
  try {
    const sim::ProgramSource programs =
        subject_.programs(plan, {split.rows * split.row_parts(), kMicrobatches}, Subject::Model::kSmall);
    std::map<int, Program> stage_programs;  // of units that are alike, one
    for (const int stage : subject_.kind) {
      if (!stage_programs.contains(stage)) stage_programs.emplace(stage, programs(stage * split.tensor));
    }
    Plan on_one_stage = plan;
    on_one_stage.mesh = Mesh({{"tensor", split.tensor}});
    on_one_stage.layouts = layouts_on(on_one_stage.mesh, split.layouts);
    on_one_stage.stages.clear();
    on_one_stage.schedule.reset();
    const Program whole = subject_.programs(on_one_stage, {split.rows * split.row_parts(), kMicrobatches},
                                            Subject::Model::kSmall)(0);
    const Mesh tensor({{"tensor", split.tensor}});
    // In a small model that is not the whole one no units are alike.
    std::vector<int> kind = subject_.kind;
    if (std::ssize(kind) != stages) {
      kind.resize(static_cast<size_t>(stages));
      std::iota(kind.begin(), kind.end(), 0);
    }
    for (const DeviceClass& device : cluster_.devices) {
      const Cluster cluster = beginning_with(device, cluster_);
      const DeviceMap device_map(tensor, cluster);
      sim::CollectiveTimes times(device_map, sim::CollectiveModel::kClosedForms, {});
      std::vector<UnitCost>& units = table.on.emplace_back(static_cast<size_t>(stages));
      for (const auto& [stage, program] : stage_programs) {
        UnitCost& cost = units[static_cast<size_t>(stage)] =
            times_of(program, device, times, meets, subject_.precision);
        if (stage + 1 == stages) continue;
        const int next = (stage + 1) * split.tensor;
        cost.ahead_bytes = message_bytes(program, Action::Kind::kSend, next);
        cost.back_bytes = message_bytes(program, Action::Kind::kReceive, next);
      }
      bring_down(units, kind, times_of(whole, device, times, meets, subject_.precision));
      // A unit by itself is handed all whole. Among others it may have a part of everything that it keeps.
      if (meets == Meets::kPerhaps) {
        for (UnitCost& unit : units) unit.kept_forward_bytes /= split.tensor;
      }
    }
  } catch (const Error& error) {
    table = {{}, error.what()};
  }
  return table;
}

bool UnitCosts::measure(const std::vector<Split>& splits, Jobs& jobs) {
  // Those that differ in what is made again, or in the phase of weights, have most of the work in common
  // (Subject::programs): one thread does them.
  const auto groups = std::make_shared<std::vector<std::vector<Split>>>();  // a job may outlast this call
  std::map<std::tuple<int, std::string, LayoutTexts, int64_t>, size_t> numbers;
  for (const Split& split : splits) {
    if (known_.contains(split)) continue;
    const auto [number, is_new] =
        numbers.try_emplace({split.tensor, split.preset, split.layouts, split.rows}, groups->size());
    if (is_new) groups->emplace_back();
    (*groups)[number->second].push_back(split);
  }
  using Tables = std::vector<Table>;
  std::vector<std::optional<Tables>> tables =
      jobs.run<Tables>(groups->size(), [this, groups, &jobs](size_t g) {
        Tables result;
        for (const Split& split : (*groups)[g]) {
          if (jobs.is_over()) break;
          result.push_back(measured(split));
        }
        return result;
      });
  if (jobs.is_over()) return false;  // and what was refused may have been refused for that
  for (size_t g = 0; g < groups->size(); ++g) {
    const std::vector<Split>& group = (*groups)[g];
    if (!tables[g] || tables[g]->size() < group.size()) return false;
    for (size_t i = 0; i < group.size(); ++i) known_.emplace(group[i], std::move((*tables[g])[i]));
  }
  return true;
}

const UnitCosts::Table& UnitCosts::of(const Split& split) {
  const auto [entry, is_new] = known_.try_emplace(split);
  if (is_new) entry->second = measured(split);
  return entry->second;
}

}  // namespace trireme::planner

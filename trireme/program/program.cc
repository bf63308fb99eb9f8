// Lays out the states of all segments, then plans each segment's memory.
#include "trireme/program/program.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"
#include "trireme/ir/window.h"
#include "trireme/passes/byte_tags.h"
#include "trireme/passes/traffic.h"
#include "trireme/program/stash_places.h"

namespace trireme {

namespace {

size_t aligned(size_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

}  // namespace

StatePart state_part(const Shape& whole, const Layout& rest, const Mesh& mesh, int rank) {
  StatePart part{whole, local_pieces(whole, rest, mesh, rank), {}, {}, {}};
  for (size_t a = 0; a < rest.size(); ++a) {
    if (rest[a].kind == Placement::Kind::kSplit) part.axes.push_back(mesh.axes()[a].name);
    if (rest[a].kind == Placement::Kind::kSum) part.sums.push_back(mesh.axes()[a].name);
  }
  return part;
}

size_t State::stride() const {
  return aligned(type.bytes());
}

size_t State::place(int64_t slot) const {
  const auto number = static_cast<size_t>(slot % slots);
  return places.empty() ? offset + number * stride() : places[number];
}

size_t State::row_bytes() const {
  return type.shape.elements() == 0 || type.shape.rank() == 0
             ? type.bytes()
             : type.bytes() / static_cast<size_t>(type.shape[0]);
}

int State::groups() const {
  return group_rows == 0 ? 1 : static_cast<int>((type.shape[0] + group_rows - 1) / group_rows);
}

bool Segment::takes(Role role) const {
  return std::ranges::any_of(graph.values, [&](const Value& value) { return value.role == role; });
}

namespace {

double bytes_sent_in_sum(const Program& program, const Action& action) {
  const auto bytes = static_cast<double>(program.find_state(action.what)->type.bytes());
  return bytes_sent(CollectiveKind::kAllReduce, replicas_of(program.mesh), bytes, bytes);
}

}  // namespace

std::vector<double> call_bytes(const Segment& segment, int number) {
  const Node& node = segment.graph.nodes[static_cast<size_t>(number)];
  const CollectiveKind kind = node.op->collective->kind;
  const bool given =
      kind == CollectiveKind::kShift || (node.op->collective->phase == OpRecord::Collective::Phase::kCall &&
                                         kind != CollectiveKind::kAllGather);
  const std::vector<ValueId>& tensors = given ? node.inputs : node.outputs;
  const auto bytes_of = [&](size_t i) { return segment.graph.type(tensors[i]).bytes(); };
  const auto place_of = [&](size_t i) { return segment.memory.values[tensors[i]].offset; };
  const std::vector<std::vector<int64_t>>& runs = segment.memory.runs;
  if (static_cast<size_t>(number) >= runs.size() || runs[static_cast<size_t>(number)].empty()) {
    std::vector<double> each;
    for (size_t i = 0; i < tensors.size(); ++i) each.push_back(static_cast<double>(bytes_of(i)));
    return each;
  }
  std::vector<double> calls;
  size_t first = 0;
  for (const int64_t count : runs[static_cast<size_t>(number)]) {
    const size_t last = first + static_cast<size_t>(count) - 1;
    calls.push_back(static_cast<double>(place_of(last) + bytes_of(last) - place_of(first)));
    first = last + 1;
  }
  return calls;
}

bool has_equal_parts(const Segment& segment, int number) {
  const Node& node = segment.graph.nodes[static_cast<size_t>(number)];
  if (node.op->collective->kind != CollectiveKind::kAllToAll) return true;
  const auto divides = [&](ValueId value, const std::string& prefix) {
    const int64_t extent =
        segment.graph.type(value).shape[static_cast<int>(node.attrs.integer(prefix + "dim"))];
    const int64_t units =
        extent / node.attrs.integer(prefix + "blocks", 1) / node.attrs.integer(prefix + "unit", 1);
    return units % node.attrs.integer("ways") == 0;
  };
  return divides(node.inputs[0], "to_") && divides(node.outputs[0], "");
}

double bytes_sent(const Segment& segment, int number) {
  const Node& node = segment.graph.nodes[static_cast<size_t>(number)];
  if (!node.op->collective || !node.op->collective->sends()) return 0;
  if (node.op->collective->kind != CollectiveKind::kAllReduce) return bytes_sent(segment.graph, node);
  double bytes = 0;
  for (const double call : call_bytes(segment, number))
    bytes += bytes_sent(CollectiveKind::kAllReduce, node.attrs.integer("ways"), call, call);
  return bytes;
}

double bytes_sent(const Segment& segment) {
  double bytes = 0;
  for (size_t n = 0; n < segment.graph.nodes.size(); ++n) bytes += bytes_sent(segment, static_cast<int>(n));
  return bytes;
}

double bytes_sent(const Program& program, const ActionList& list) {
  double bytes = 0;
  for (const Action& action : list.actions) {
    if (action.kind == Action::Kind::kRun)
      bytes += bytes_sent(program.segments[program.segment(action.what)]);
    else if (action.kind == Action::Kind::kSend)
      bytes += static_cast<double>(program.find_state(action.what)->type.bytes());
    else if (action.kind == Action::Kind::kReduce)
      bytes += bytes_sent_in_sum(program, action);
  }
  return bytes;
}

double bytes_sent_in_step(const Program& program) {
  double bytes = bytes_sent(program, program.list(When::step()));
  for (const ActionList& list : program.lists) {
    if (list.when.kind == When::Kind::kEvery)
      bytes += bytes_sent(program, list) / static_cast<double>(list.when.steps);
  }
  return bytes;
}

const State* Program::find_state(std::string_view name) const {
  const auto found = state_numbers.find(name);
  return found == state_numbers.end() ? nullptr : &states[found->second];
}

int Program::segment(std::string_view name) const {
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].graph.name == name) return static_cast<int>(i);
  }
  return -1;
}

const ActionList* Program::find_list(const When& when) const {
  const auto found = std::ranges::find(lists, when, &ActionList::when);
  return found == lists.end() ? nullptr : &*found;
}

const ActionList& Program::list(const When& when) const {
  const ActionList* found = find_list(when);
  if (!found) throw_error("the program has no list of actions for '{}'", to_string(when));
  return *found;
}

const ActionList& Program::step_list(int64_t step) const {
  const ActionList* found = nullptr;
  for (const ActionList& list : lists) {
    if (list.when.kind == When::Kind::kUntil && list.when.steps >= step &&
        (!found || list.when.steps < found->when.steps))
      found = &list;
  }
  return found ? *found : list(When::step());
}

int Program::group(std::string_view name) const {
  const auto found = std::ranges::find(groups, name, &FileGroup::name);
  return found == groups.end() ? -1 : static_cast<int>(found - groups.begin());
}

int Program::group_of(const Value& state) const {
  const State& found = *find_state(state.name);
  if (found.group < 0 || found.group_rows == 0) return found.group;
  return found.group + static_cast<int>(first_row(state) / found.group_rows);
}

size_t Program::offset_of(const Value& state) const {
  const State& found = *find_state(state.name);
  const size_t begin = static_cast<size_t>(first_row(state)) * found.row_bytes();
  if (found.group_rows == 0) return found.offset + begin;
  return found.offset - groups[found.group].offset + groups[group_of(state)].offset;
}

size_t Program::file_bytes() const {
  return groups.empty() ? 0 : groups.back().file_offset + groups.back().bytes;
}

size_t Program::staging_bytes() const {
  size_t begin = state_bytes, end = 0;
  for (const FileGroup& group : groups) {
    begin = std::min(begin, group.offset);
    end = std::max(end, group.offset + group.bytes);
  }
  return groups.empty() ? 0 : end - begin;
}

namespace {

StatePart part_named(const StateParts& parts, const Value& state) {
  if (const auto found = parts.find(state.name); found != parts.end()) return found->second;
  StatePart whole{state.type.shape, {}, {}, {}, {}};
  for (int64_t extent : state.type.shape) whole.pieces.push_back({{0, extent}});
  return whole;
}

// Of the messages in lists, and of their sums.
StateNames states_in_messages(const std::vector<ActionList>& lists) {
  StateNames names;
  for (const ActionList& list : lists) {
    for (const Action& action : list.actions) {
      if (action.is_message() || action.is_of_sum()) names.insert(action.what);
    }
  }
  return names;
}

// The names of states that a collective reads or makes, or that a message takes.
StateNames states_in_comm_memory(const std::vector<StepSegment>& segments, const StateNames& in_messages) {
  StateNames names = in_messages;
  for (const auto& [graph, kind, rows] : segments) {
    for (const Node& node : graph.nodes) {
      if (!node.op->collective) continue;
      for (ValueId input : node.inputs) {
        if (graph.values[input].kind == Value::Kind::kState) names.insert(graph.values[input].name);
      }
    }
    for (const Update& update : graph.updates) {
      const int maker = graph.values[update.value].node;
      if (maker >= 0 && graph.nodes[maker].op->collective) names.insert(graph.values[update.state].name);
    }
  }
  return names;
}

void add_state(Program& program, const Value& value, const StateParts& parts, const StateSlots& slots,
               const std::string& segment) {
  const State* known = program.find_state(value.name);
  const TensorType type = whole_type(value);
  if (known && known->type != type) {
    throw_error("state %{} is {} in segment '{}' but {} before", value.name, to_string(type), segment,
                to_string(known->type));
  }
  if (known) return;
  const Value whole = without_window(value);
  const auto named = slots.find(value.name);
  program.state_numbers.emplace(value.name, program.states.size());
  const State& state =
      program.states.emplace_back(State{value.name, type, value.role, whole.attrs, program.state_bytes,
                                        part_named(parts, whole), named == slots.end() ? 1 : named->second});
  program.state_bytes += state.stride() * static_cast<size_t>(state.slots);
}

// The groups after one another in the file, and in staging slots, each as large as the largest of its groups.
void add_groups(Program& program, const std::vector<StepSegment>& segments, const StateParts& parts,
                const FileStateNames& in_files) {
  std::map<std::string_view, const Value*> values;
  for (const StepSegment& segment : segments) {
    for (const Value& value : segment.graph.values) {
      if (value.kind == Value::Kind::kState) values.emplace(value.name, &value);
    }
  }
  const size_t staging = program.state_bytes;
  size_t file_bytes = 0;
  std::map<int, size_t> slot_bytes;
  for (const auto& [name, states, slot, rows, first] : in_files) {
    const int number = static_cast<int>(program.groups.size());
    // Later rows lie in their group as the first do in theirs.
    size_t bytes = first > 0 ? program.groups.back().bytes : 0;
    for (const std::string& state_name : first > 0 ? std::vector<std::string>() : states) {
      program.state_bytes = bytes;  // from the group's beginning
      add_state(program, *values.at(state_name), parts, {}, name);
      State& state = program.states.back();
      state.group = number;
      state.group_rows = rows;
      bytes += rows == 0 ? state.stride() : aligned(static_cast<size_t>(rows) * state.row_bytes());
    }
    program.groups.push_back({name, 0, file_bytes, bytes, slot});
    file_bytes += bytes;
    slot_bytes[slot] = std::max(slot_bytes[slot], bytes);
  }
  std::map<int, size_t> slot_begins;
  program.state_bytes = staging;
  for (const auto& [slot, bytes] : slot_bytes) {
    slot_begins[slot] = program.state_bytes;
    program.state_bytes += bytes;
  }
  for (FileGroup& group : program.groups) group.offset = slot_begins.at(group.slot);
  for (State& state : program.states) {
    if (state.group >= 0) state.offset += program.groups[state.group].offset;
  }
}

// Behind all others of the same memory.
void add_stashes(Program& program, const StashPool& pool, const StateParts& parts) {
  const size_t begin = program.state_bytes;
  for (const StashPool::Stash& stash : pool.stashes) {
    add_state(program, *stash.value, parts, {}, "");
    State& state = program.states.back();
    state.slots = static_cast<int>(stash.places.size());
    for (size_t place : stash.places) state.places.push_back(begin + place);
    state.offset = state.places[0];
  }
  program.state_bytes = begin + pool.bytes;
}

void add_states(Program& program, const std::vector<StepSegment>& segments, const StateParts& parts,
                const StateSlots& slots, const FileStateNames& in_files) {
  const StateNames in_comm_memory = states_in_comm_memory(segments, states_in_messages(program.lists));
  StateNames in_any_file;
  for (const StatesInFile& group : in_files) in_any_file.insert(group.states.begin(), group.states.end());
  StateSlots apart = slots;
  for (const std::string& name : in_any_file) apart.emplace(name, 1);
  const StashPools pools = place_stashes(segments, program.lists, in_comm_memory, apart);
  StateNames pooled;
  for (const StashPool* pool : {&pools.own, &pools.comm}) {
    for (const StashPool::Stash& stash : pool->stashes) pooled.insert(stash.value->name);
  }
  for (const bool by_collectives : {false, true}) {
    if (by_collectives) {
      add_groups(program, segments, parts, in_files);
      program.comm_from = program.state_bytes;
    }
    for (const auto& [graph, kind, rows] : segments) {
      for (const Value& value : graph.values) {
        if (value.kind == Value::Kind::kState && !in_any_file.contains(value.name) &&
            !pooled.contains(value.name) && in_comm_memory.contains(value.name) == by_collectives)
          add_state(program, value, parts, slots, graph.name);
      }
    }
    add_stashes(program, by_collectives ? pools.comm : pools.own, parts);
  }
}

}  // namespace

Program build_program(std::vector<StepSegment> local, const WorkspaceQuery& workspace,
                      const StateParts& parts, const StateSlots& slots, std::vector<ActionList> lists,
                      const FileStateNames& in_files) {
  Program program;
  program.lists = std::move(lists);
  add_states(program, local, parts, slots, in_files);
  for (auto& [graph, kind, rows] : local) {
    std::vector<size_t> state_offsets(graph.values.size(), 0), workspace_bytes;
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].kind == Value::Kind::kState) state_offsets[i] = program.offset_of(graph.values[i]);
    }
    for (const Node& node : graph.nodes) workspace_bytes.push_back(workspace(graph, node));
    MemoryPlan memory = plan_memory(graph, state_offsets, workspace_bytes);
    program.arena_bytes = std::max(program.arena_bytes, memory.arena_bytes);
    program.comm_bytes = std::max(program.comm_bytes, memory.comm_bytes);
    program.input_bytes += memory.input_bytes;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (!memory.runs[n].empty()) graph.nodes[n].attrs.set("runs", memory.runs[n]);
    }
    program.segments.push_back({std::move(graph), kind, std::move(memory), {}});
  }
  return program;
}

std::map<Role, size_t> state_bytes_by_role(const Program& program) {
  std::map<Role, size_t> bytes;
  std::map<Role, ByteTags> shared;
  for (const State& state : program.states) {
    if (state.group >= 0) continue;
    if (state.places.empty()) bytes[state.role] += state.stride() * static_cast<size_t>(state.slots);
    for (size_t place : state.places) shared[state.role].write(place, place + state.stride(), 0);
  }
  for (const auto& [role, places] : shared) bytes[role] += places.bytes();
  return bytes;
}

Program with_graphs(const Program& program, std::vector<Graph> graphs, const WorkspaceQuery& workspace) {
  TRIREME_CHECK(graphs.size() == program.segments.size());
  StateParts parts;
  StateSlots slots;
  for (const State& state : program.states) {
    parts[state.name] = state.part;
    if (state.places.empty()) slots[state.name] = state.slots;
  }
  FileStateNames in_files;
  for (const FileGroup& group : program.groups) in_files.push_back({group.name, {}, group.slot});
  for (const State& state : program.states) {
    for (int piece = 0; state.group >= 0 && piece < state.groups(); ++piece) {
      StatesInFile& group = in_files[state.group + piece];
      group.states.push_back(state.name);
      group.rows = state.group_rows;
      group.first_row = piece * state.group_rows;
    }
  }
  std::vector<StepSegment> segments;
  for (size_t s = 0; s < graphs.size(); ++s)
    segments.emplace_back(std::move(graphs[s]), program.segments[s].kind);
  Program result = build_program(std::move(segments), workspace, parts, slots, program.lists, in_files);
  result.mesh = program.mesh;
  result.rank = program.rank;
  result.sums = program.sums;
  result.parameters = program.parameters;
  result.remote_states = program.remote_states;
  return result;
}

}  // namespace trireme

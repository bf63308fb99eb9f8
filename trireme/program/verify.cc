// Checks of one rank's program; see verify.h.
#include "trireme/program/verify.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "trireme/base/error.h"
#include "trireme/ir/verify.h"
#include "trireme/ir/window.h"
#include "trireme/passes/byte_tags.h"
#include "trireme/passes/memory_check.h"
#include "trireme/program/file_turns.h"

namespace trireme {
namespace {

void verify_groups(const Program& program) {
  size_t end = 0;
  std::map<int, Part> slots;  // where their groups lie
  for (const FileGroup& group : program.groups) {
    if (group.file_offset < end)
      throw_error("the group {} begins at {} of the file, where the one before it ends at {}", group.name,
                  group.file_offset, end);
    end = group.file_offset + group.bytes;
    const Part part{static_cast<int64_t>(group.offset), static_cast<int64_t>(group.bytes)};
    Part& slot = slots.emplace(group.slot, part).first->second;
    if (group.slot < 0 || slot.begin != part.begin)
      throw_error("the group {} is said to have staging slot {}, but lies elsewhere than others in it",
                  group.name, group.slot);
    slot.size = std::max(slot.size, part.size);
  }
  for (const FileGroup& group : program.groups) {
    for (const auto& [slot, part] : slots) {
      if (slot != group.slot && part.begin < static_cast<int64_t>(group.offset + group.bytes) &&
          static_cast<int64_t>(group.offset) < part.end())
        throw_error("the group {} in staging slot {} reaches into that of {}", group.name, group.slot, slot);
    }
  }
}

void verify_place_in_group(const Program& program, const State& state) {
  if (state.group >= std::ssize(program.groups))
    throw_error("the state %{} is in group {} of {}", state.name, state.group, program.groups.size());
  if (state.group_rows < 0 || (state.group_rows > 0 && state.type.shape.rank() == 0) ||
      state.group + state.groups() > std::ssize(program.groups))
    throw_error("the state %{} has {} rows in each group from {} on of {}", state.name, state.group_rows,
                state.group, program.groups.size());
  const size_t bytes =
      state.group_rows == 0 ? state.stride() : static_cast<size_t>(state.group_rows) * state.row_bytes();
  const size_t within = state.offset - program.groups[state.group].offset;
  for (int g = state.group; g < state.group + state.groups(); ++g) {
    const FileGroup& group = program.groups[g];
    if (state.slots != 1 || state.offset < program.groups[state.group].offset || within + bytes > group.bytes)
      throw_error("the state %{} does not lie in its group {}", state.name, group.name);
  }
}

// Stashes share memory among themselves, behind what comes before the first of them.
void verify_places(const Program& program, const State& state, size_t begin) {
  if (state.role != Role::kStash || state.group >= 0)
    throw_error("the state %{} is said to share memory, which stashes alone do", state.name);
  if (std::ssize(state.places) != state.slots || state.places[0] != state.offset)
    throw_error("the state %{} has {} slots, the first at {}, but {} places, the first at {}", state.name,
                state.slots, state.offset, state.places.size(), state.places[0]);
  for (size_t place : state.places) {
    const size_t end = place + state.stride();
    const bool parted = place < program.comm_from && end > program.comm_from;
    if (place < begin || place % kMemoryAlignment != 0 || parted || end > program.state_bytes)
      throw_error("a slot of the state %{} lies from {} to {}; stashes lie behind {}, on one side of {}",
                  state.name, place, end, begin, program.comm_from);
  }
}

void verify_states(const Program& program) {
  size_t end = 0, shared_end = 0;
  for (const State& state : program.states) {
    if (state.slots < 1)
      throw_error("the state %{} has {} slots; 1 or more expected", state.name, state.slots);
    const size_t begin = state.offset;
    if (!state.places.empty()) {
      verify_places(program, state, end);
      for (size_t place : state.places) shared_end = std::max(shared_end, place + state.stride());
    } else if (state.group >= 0)
      verify_place_in_group(program, state);
    else if (begin < std::max(end, shared_end))
      throw_error("the state %{} begins at {}, where the state before it ends at {}", state.name,
                  state.offset, std::max(end, shared_end));
    if (state.group < 0 && state.places.empty())
      end = std::max(end, begin + state.stride() * static_cast<size_t>(state.slots));
    for (int g = 0; state.group >= 0 && g < state.groups(); ++g) {
      const FileGroup& group = program.groups[state.group + g];
      end = std::max(end, group.offset + group.bytes);
    }
    int64_t elements = 1;
    for (const Pieces& pieces : state.part.pieces) {
      int64_t extent = 0;
      for (const Part& piece : pieces) extent += piece.size;
      elements *= extent;
    }
    if (elements != state.type.shape.elements())
      throw_error("the state %{} is {}, but its part of {} has {} elements", state.name,
                  to_string(state.type), to_string(state.part.whole), elements);
  }
  end = std::max(end, shared_end);
  if (end > program.state_bytes)
    throw_error("states take {} bytes, but the program has {} for them", end, program.state_bytes);
}

void verify_window(const State& state, const Value& value, std::string_view segment) {
  if (value.type.shape.rank() == 0) return;
  const int64_t first = first_row(value), rows = value.type.shape[0];
  const bool within = first >= 0 && first <= state.type.shape[0] - rows;
  const bool in_one_group =
      state.group_rows == 0 || (first % state.group_rows == 0 && rows <= state.group_rows);
  if (!within || !in_one_group)
    throw_error("segment '{}' sees {} rows of the state %{} from {} on; it has {}, in groups of {}", segment,
                rows, value.name, first, state.type.shape[0], state.group_rows);
}

void verify_segment(const Program& program, const Segment& segment) {
  const Graph& graph = segment.graph;
  verify(graph);
  std::vector<size_t> offsets(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.kind != Value::Kind::kState) continue;
    const State* state = program.find_state(value.name);
    if (!state)
      throw_error("segment '{}' names the state %{}, which the program does not have", graph.name,
                  value.name);
    if (const TensorType type = whole_type(value); state->type != type || state->role != value.role) {
      throw_error("segment '{}' has the state %{} as {} {}, but the program as {} {}", graph.name, value.name,
                  to_string(type), name(value.role), to_string(state->type), name(state->role));
    }
    verify_window(*state, value, graph.name);
    offsets[v] = program.offset_of(value);
  }
  const MemoryPlan& memory = segment.memory;
  if (memory.arena_bytes > program.arena_bytes || memory.comm_bytes > program.comm_bytes) {
    throw_error(
        "segment '{}' takes {} bytes of the arena and {} of comm memory, but the program has {} and {}",
        graph.name, memory.arena_bytes, memory.comm_bytes, program.arena_bytes, program.comm_bytes);
  }
  const std::string fault = find_memory_fault(graph, memory, offsets);
  if (!fault.empty()) throw_error("segment '{}': {}", graph.name, fault);
}

// Made anew in every step, so that nothing may be left of the step before.
bool is_of_one_step(Role role) {
  return role == Role::kGradient || role == Role::kPending || role == Role::kStash;
}
bool is_made_by_steps(Role role) {
  return is_of_one_step(role) || role == Role::kVersion;
}

class ListCheck {
 public:
  ListCheck(const Program& program, const ActionList& list)
      : program_(program), list_(list), fill_(is_step() ? program.find_list(When::fill()) : nullptr) {}

  void run() {
    if (fill_) {
      for (const Action& action : fill_->actions) check(action);
    }
    // An asynchronous pipeline takes other slots in every step, until all were taken.
    int64_t steps = 1;
    for (const State& state : program_.states) {
      if (fill_) steps = std::max<int64_t>(steps, state.slots + 2);
    }
    for (int64_t step = 0; step < steps; ++step) {
      for (Action action : list_.actions) {
        action.microbatch += step * list_.microbatches;
        const int64_t slot = action.slot + step * list_.microbatches;
        if (slot > std::numeric_limits<int>::max())
          throw_error("the list '{}' comes to slot {} after {} steps of {} microbatches", list_.name, slot,
                      step, list_.microbatches);
        action.slot = static_cast<int>(slot);
        check(action);
      }
    }
    for (const auto& [slot, group] : in_slot_) expect_stored(slot);
  }

 private:
  void check(const Action& action) {
    action.kind == Action::Kind::kRun ? check_run(action)
    : action.is_message()             ? check_message(action)
    : action.is_of_sum()              ? check_sum(action)
                                      : check_file(action);
  }

  void check_run(const Action& action) {
    const int index = program_.segment(action.what);
    if (index < 0)
      throw_error("the list '{}' runs the segment '{}', which does not exist", list_.name, action.what);
    const Segment& segment = program_.segments[index];
    if (action.slot < 0)
      throw_error("the list '{}' runs '{}' on slot {}; 0 or more expected", list_.name, action.what,
                  action.slot);
    if (segment.takes(Role::kBatch)) {
      if (action.microbatch < 0 || ((is_step() || list_.when.kind == When::Kind::kUntil) && !fill_ &&
                                    action.microbatch >= list_.microbatches))
        throw_error("the list '{}' runs '{}' on microbatch {} of {}", list_.name, action.what,
                    action.microbatch, list_.microbatches);
      if (!computed_.insert({segment.kind, piece_of(action.what), action.microbatch}).second)
        throw_error("the list '{}' computes microbatch {} twice", list_.name, action.microbatch);
    }
    for (const GroupUse& use : group_uses(program_, segment.graph)) check_use(use, action.what);
    std::set<ValueId> read;
    for (const Node& node : segment.graph.nodes) read.insert(node.inputs.begin(), node.inputs.end());
    for (const Output& output : segment.graph.outputs) read.insert(output.value);
    for (ValueId id : read) {
      const Value& value = segment.graph.values[id];
      if (!is_step() || !is_made_by_steps(value.role)) continue;
      const auto made = made_.find({value.name, slot_of(value.name, action)});
      if (made == made_.end())
        throw_error("the list '{}' runs '{}', which reads %{} before anything made it in this step",
                    list_.name, action.what, value.name);
      if (value.role == Role::kStash && made->second != action.slot)
        throw_error(
            "the list '{}' runs '{}' on slot {}, but %{} has that of {} there: it has {} slots, too few",
            list_.name, action.what, action.slot, value.name, made->second,
            program_.find_state(value.name)->slots);
      expect_in_place(value.name, action);
    }
    for (const Update& update : segment.graph.updates) {
      const Value& state = segment.graph.values[update.state];
      made_[{state.name, slot_of(state.name, action)}] = action.slot;
      take_place(state.name, action);
    }
  }

  // Of stashes that share memory, the one that was made last is there.
  void take_place(std::string_view name, const Action& action) {
    const State& state = *program_.find_state(name);
    if (state.places.empty()) return;
    const size_t begin = state.place(action.slot);
    in_place_.write(begin, begin + state.type.bytes(), owner(state, action));
  }
  void expect_in_place(std::string_view name, const Action& action) const {
    const State& state = *program_.find_state(name);
    if (state.places.empty()) return;
    const size_t begin = state.place(action.slot);
    if (!in_place_.hold(begin, begin + state.type.bytes(), owner(state, action)))
      throw_error("the list '{}' {} '{}' on slot {}, but another stash has taken the memory of %{} before",
                  list_.name, action.is_message() ? "sends" : "runs", action.what, action.slot, name);
  }
  int64_t owner(const State& state, const Action& action) const {
    return (&state - program_.states.data()) * (int64_t{1} << 32) + action.slot;
  }

  void check_message(const Action& action) {
    const State* state = program_.find_state(action.what);
    const std::string_view verb = action.kind == Action::Kind::kSend ? "sends" : "receives";
    if (!state)
      throw_error("the list '{}' {} the state %{}, which does not exist", list_.name, verb, action.what);
    if (action.slot < 0)
      throw_error("the list '{}' {} slot {} of %{}; 0 or more expected", list_.name, verb, action.slot,
                  action.what);
    if (action.peer < 0 || action.peer >= program_.mesh.ranks() || action.peer == program_.rank)
      throw_error("the list '{}' {} %{} with rank {} of {}", list_.name, verb, action.what, action.peer,
                  program_.mesh.ranks());
    const std::pair key{action.what, slot_of(action.what, action)};
    if (action.kind == Action::Kind::kReceive) {
      made_[key] = action.slot;
      take_place(action.what, action);
    } else if (const auto made = made_.find(key);
               is_of_one_step(state->role) &&
               (made == made_.end() || (state->role == Role::kStash && made->second != action.slot))) {
      throw_error("the list '{}' sends slot {} of %{} before anything made it in this step", list_.name,
                  action.slot, action.what);
    } else {
      expect_in_place(action.what, action);
    }
  }

  void check_sum(const Action& action) {
    const int axis = program_.mesh.find(replica_axis(program_.mesh));
    const State* state = program_.find_state(action.what);
    const std::string_view verb =
        action.kind == Action::Kind::kReduce ? "begins to add up" : "awaits the sum of";
    if (!state || axis < 0)
      throw_error("the list '{}' {} %{} over the ranks along {}, {}", list_.name, verb, action.what,
                  replica_axis(program_.mesh),
                  state ? "an axis that the mesh does not have" : "a state that does not exist");
    if (action.slot < 0)
      throw_error("the list '{}' {} slot {} of %{}; 0 or more expected", list_.name, verb, action.slot,
                  action.what);
  }

  void check_file(const Action& action) {
    const int group = program_.group(action.what);
    if (group < 0)
      throw_error("the list '{}' fetches or stores the group {}, which does not exist", list_.name,
                  action.what);
    const int slot = program_.groups[group].slot;
    if (action.kind == Action::Kind::kFetch) {
      expect_stored(slot);
      in_slot_[slot] = {group, false};
    } else if (const auto found = in_slot_.find(slot);
               found == in_slot_.end() || found->second != std::pair(group, true)) {
      throw_error("the list '{}' stores the group {}, which nothing in its slot has renewed", list_.name,
                  action.what);
    } else {
      found->second.second = false;
    }
  }

  void check_use(const GroupUse& use, std::string_view segment) {
    const FileGroup& group = program_.groups[use.group];
    const auto found = in_slot_.find(group.slot);
    if (found != in_slot_.end() && found->second.first == use.group) {
      found->second.second |= use.writes;
      return;
    }
    if (use.reads)
      throw_error("the list '{}' runs '{}', but the states of {} rest in a file and were not fetched",
                  list_.name, segment, group.name);
    expect_stored(group.slot);
    in_slot_[group.slot] = {use.group, true};
  }

  // Before another group takes the slot, and at the end.
  void expect_stored(int slot) const {
    const auto found = in_slot_.find(slot);
    if (found != in_slot_.end() && found->second.second)
      throw_error("the list '{}' renews the group {} and does not store it", list_.name,
                  program_.groups[found->second.first].name);
  }

  bool is_step() const { return list_.when == When::step(); }
  int slot_of(std::string_view state, const Action& action) const {
    return action.slot % program_.find_state(state)->slots;
  }

  // The piece of a pipeline that a segment is; "" where the model is not cut.
  static std::string piece_of(std::string_view segment) {
    const size_t dot = segment.find('.');
    return dot == segment.npos ? "" : std::string(segment.substr(dot));
  }

  const Program& program_;
  const ActionList& list_;
  const ActionList* fill_;                           // that comes before it, of an asynchronous pipeline
  std::map<int, std::pair<int, bool>> in_slot_;      // staging slot -> group, and whether it must be stored
  std::map<std::pair<std::string, int>, int> made_;  // in this step, by state and slot: by whom, as a slot
  ByteTags in_place_;                                // of stashes that share memory: who is where
  std::set<std::tuple<SegmentKind, std::string, int64_t>> computed_;  // pieces and microbatches
};

// Steps differ in their updates alone: who makes gradients, and who looks at them in between, follows `step`.
void verify_early(const Program& program, const ActionList& early) {
  const ActionList* step = program.find_list(When::step());
  const auto gradients = [&](const ActionList& list) {
    std::vector<Action> actions;
    for (const Action& action : list.actions) {
      const int segment = action.kind == Action::Kind::kRun ? program.segment(action.what) : -1;
      if (segment >= 0 && program.segments[segment].kind == SegmentKind::kUpdate) break;
      actions.push_back(action);
    }
    return actions;
  };
  if (!step || gradients(*step) != gradients(early))
    throw_error("the list '{}' takes the place of 'step' up to step {}, but makes gradients in another way",
                early.name, early.when.steps);
  if (early.rows != step->rows || early.own != step->own || early.microbatches != step->microbatches)
    throw_error("the list '{}' takes the place of 'step' up to step {}, but takes other rows", early.name,
                early.when.steps);
}

// Nobody would know which of two lists is meant, and one that is run when a message arrives takes it.
void verify_when(const Program& program) {
  for (const ActionList& list : program.lists) {
    const auto [kind, steps, first, what, peer] = list.when;
    const auto refuse = [&](std::string_view why) {
      throw_error("the list '{}' is for '{}', {}", list.name, to_string(list.when), why);
    };
    if (kind == When::Kind::kEvery && (steps < 1 || first < 1)) refuse("but steps are counted from 1");
    if (kind != When::Kind::kEvery && program.find_list(list.when) != &list)
      refuse(fmt::format("and so is '{}'", program.find_list(list.when)->name));
    if (kind != When::Kind::kArrival && !(kind == When::Kind::kAsked && what == When::What::kTell)) continue;
    if (peer < 0 || peer >= program.mesh.ranks() || peer == program.rank)
      refuse(fmt::format("on rank {} of {}", program.rank, program.mesh.ranks()));
    const bool takes = kind == When::Kind::kArrival;
    const auto end = takes ? Action::Kind::kReceive : Action::Kind::kSend;
    if (std::ranges::none_of(list.actions, [&, peer = peer](const Action& one) {
          return one.kind == end && one.peer == peer;
        }))
      refuse(takes ? "but receives nothing from there" : "but sends nothing there");
  }
}

// What one list begins another one must await, or its memory would never be free again; and the other way
// round, a rank would wait for what nobody has begun.
void verify_sums(const Program& program) {
  std::map<Action::Kind, std::map<std::pair<std::string, int>, std::string>> lists;  // by state and slot
  for (const ActionList& list : program.lists) {
    for (const Action& action : list.actions) {
      if (action.is_of_sum()) lists[action.kind][{action.what, action.slot}] = list.name;
    }
  }
  using enum Action::Kind;
  for (const auto& [one, other] : {std::pair{kReduce, kAwait}, std::pair{kAwait, kReduce}}) {
    for (const auto& [key, list] : lists[one]) {
      if (!lists[other].contains(key))
        throw_error("the list '{}' {} slot {} of %{}, which no list {}", list,
                    one == kReduce ? "begins to add up" : "awaits the sum of", key.second, key.first,
                    one == kReduce ? "awaits" : "begins to add up");
    }
  }
}

}  // namespace

void verify(const Program& program) {
  if (program.rank < 0 || program.rank >= program.mesh.ranks())
    throw_error("rank {} is none of the {} of the mesh", program.rank, program.mesh.ranks());
  verify_groups(program);
  verify_states(program);
  for (const Segment& segment : program.segments) verify_segment(program, segment);
  verify_when(program);
  verify_sums(program);
  for (const ActionList& list : program.lists) {
    if (list.when != When::fill()) ListCheck(program, list).run();  // that goes before `step`
    if (list.when.kind == When::Kind::kUntil) verify_early(program, list);
  }
}

}  // namespace trireme

// Looks up names once, so that following a list allocates nothing.
#include "trireme/runtime/runner.h"

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/kernels/communicator.h"
#include "trireme/program/trace_kind.h"
#include "trireme/program/waits.h"

namespace trireme {
namespace {

// The same on both ends of a message, and seldom that of another state. Transports have room for 4096.
int tag_of(std::string_view state) {
  return static_cast<int>(stream_id(state) % 4096);
}

}  // namespace

Runner::Runner(Executor& executor, Trace* trace) : executor_(executor), trace_(trace) {
  const Program& program = executor.program();
  for (const ActionList& list : program.lists) {
    lists_.push_back(turns_of(list));
    if (list.when != When::step()) continue;
    for (const Turn& turn : lists_.back()) {
      if (turn.runs() && program.segments[turn.segment].kind == SegmentKind::kUpdate) break;
      ++updates_from_;
    }
  }
}

std::vector<Runner::Turn> Runner::turns_of(const ActionList& list) const {
  const Program& program = executor_.program();
  std::vector<Turn> turns;
  for (const Action& action : list.actions) {
    if (action.is_message() || action.is_of_sum()) {
      turns.push_back(message(action));
      continue;
    }
    if (action.is_of_file()) {
      turns.push_back({.action = &action, .group = program.group(action.what)});
      if (turns.back().group < 0)
        throw_error("the list '{}' fetches or stores the group '{}', which the program does not have",
                    list.name, action.what);
      continue;
    }
    const int segment = program.segment(action.what);
    if (segment < 0)
      throw_error("the list '{}' runs the segment '{}', which the program does not have", list.name,
                  action.what);
    turns.push_back({&action, segment});
  }
  const Waits waits = waits_of(program, list);
  for (size_t i = 0; i < turns.size(); ++i) {
    for (int message : waits.before[i]) turns[i].waits.push_back(&turns[message]);
  }
  for (int message : waits.at_end) turns.back().waits_behind.push_back(&turns[message]);
  return turns;
}

Runner::Turn Runner::message(const Action& action) const {
  const State* state = executor_.program().find_state(action.what);
  if (!state)
    throw_error("a message or a sum is of the state %{}, which the program does not have", action.what);
  if (!executor_.communicator())
    throw_error("%{} goes to other ranks, but there is nothing to send it by", action.what);
  return {.action = &action, .state = state, .tag = tag_of(state->name)};
}

void Runner::run(const Turn& turn, int64_t first_slot) {
  const int64_t slot = first_slot + turn.action->slot;
  if (!trace_ || !trace_->is_recording()) return executor_.run(turn.segment, slot);
  const double begin = trace_->now();
  executor_.run(turn.segment, slot);
  executor_.synchronize();  // or the end of a GPU's work would not be known
  trace_->add({.name = turn.action->what,
               .kind = trace_kind(executor_.program().segments[static_cast<size_t>(turn.segment)]),
               .begin = begin,
               .end = trace_->now(),
               .microbatch = static_cast<int64_t>(turn.action->microbatch)});
}

void Runner::start(const Turn& turn, int64_t first_slot) {
  if (turn.group >= 0) {
    turn.action->kind == Action::Kind::kFetch ? executor_.start_fetch(turn.group)
                                              : executor_.start_store(turn.group);
    return;
  }
  Communicator& communicator = *executor_.communicator();
  std::byte* const data = memory_of(turn, first_slot);
  const auto bytes = static_cast<int64_t>(turn.state->type.bytes());
  if (turn.action->kind == Action::Kind::kReduce) {
    communicator.start({CollectiveKind::kAllReduce, replica_axis(executor_.program().mesh), data,
                        turn.state->type.shape.elements(), turn.state->type.dtype});
  } else if (turn.action->kind == Action::Kind::kAwait) {
    communicator.wait(data);
  } else if (turn.action->kind == Action::Kind::kSend) {
    communicator.start_send(turn.action->peer, data, bytes, turn.tag);
  } else {
    communicator.start_receive(turn.action->peer, data, bytes, turn.tag);
  }
}

const std::byte* Runner::begin(const ActionList& list, int64_t first_slot) {
  const std::span<const Turn> only = turns(list);
  TRIREME_CHECK((only.size() == 1 && only[0].state != nullptr));
  start(only[0], first_slot);
  return memory_of(only[0], first_slot);
}

void Runner::wait(const std::vector<const Turn*>& messages, int64_t first_slot) {
  for (const Turn* message : messages) executor_.communicator()->wait(memory_of(*message, first_slot));
}

}  // namespace trireme

// Allocates what the Program planned, launches what was prepared (executor_prepare.cc), and moves inputs,
// outputs and states.
#include "trireme/runtime/executor.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/kernels/communicator.h"
#include "trireme/runtime/comm_use.h"
#include "trireme/runtime/device_queries.h"

namespace trireme {
namespace {

std::string types_of(std::span<const TensorView> views) {
  std::string text;
  for (const TensorView& view : views)
    text += (text.empty() ? "" : " ") + to_string(TensorType{view.dtype, view.shape});
  return text;
}

Program with_room(Program program, const Device& device) {
  if (const std::optional<size_t> free = device.free_bytes()) expect_room(program, *free);
  return program;
}

}  // namespace

Executor::Executor(Program program, Device& device, Communicator* communicator, const std::string& folder)
    : program_(with_room(std::move(program), device)),
      device_(device),
      communicator_(communicator),
      stream_(device.make_stream()),
      reaching_(communicator ? device.reached_by(*communicator, *stream_, comm_use(program_)) : nullptr) {
  states_ = memory(program_.comm_from);
  arena_ = memory(program_.arena_bytes);
  comm_states_ = comm_memory(program_.state_bytes - program_.comm_from);
  comm_ = comm_memory(program_.comm_bytes);
  for (const Segment& segment : program_.segments) file_uses_.push_back(group_uses(program_, segment.graph));
  if (!program_.groups.empty()) open_files(folder);
  for (size_t s = 0; s < program_.segments.size(); ++s) prepare(static_cast<int>(s));
}

void Executor::open_files(const std::string& folder) {
  std::vector<FileStates::Group> groups;
  for (const FileGroup& group : program_.groups)
    groups.push_back({group.slot, state_address(group.offset), group.bytes, group.file_offset});
  int slots = 0;
  for (const FileGroup& group : program_.groups) slots = std::max(slots, group.slot + 1);
  files_ = std::make_unique<FileStates>(folder, std::move(groups), slots, device_);
}

// The point at which what was launched until now is through; none where that is so already.
std::unique_ptr<Event> Executor::launched() {
  return device_.memory() == Device::Memory::kOwn ? stream_->record() : nullptr;
}

void Executor::start_fetch(int group) {
  files_->start_read(group, launched());
}

void Executor::start_store(int group) {
  files_->start_write(group, launched());
}

size_t Executor::allocated_bytes() const {
  size_t total = states_.bytes() + arena_.bytes() + comm_states_.bytes() + comm_.bytes();
  for (const SegmentSlots& prepared : prepared_) total += prepared.inputs.bytes();
  return total;
}

// Messages and collectives work on it, and share it: they may still be under way when the executor goes.
Buffer Executor::memory(size_t bytes) {
  Buffer buffer = device_.allocate(bytes);
  if (communicator_ && !reaching_) communicator_->lend(buffer.shared(), bytes);
  return buffer;
}

// From the transport, where there is one: a collective then works on it in place.
Buffer Executor::comm_memory(size_t bytes) {
  if (!communicator_ || reaching_ || bytes == 0) return device_.allocate(bytes);
  return Buffer(communicator_->allocate(bytes), bytes);
}

std::byte* Executor::state_address(size_t offset) const {
  return offset < program_.comm_from ? states_.data() + offset
                                     : comm_states_.data() + (offset - program_.comm_from);
}

void Executor::launch_group(const Prepared& prepared, int first, int last) {
  if (last - first == 1) return launch(prepared, prepared.launches[first]);
  const std::span<const TensorView> views(prepared.views);
  std::vector<LaunchArguments> nodes;
  for (int n = first; n < last; ++n) {
    const Launch& one = prepared.launches[n];
    nodes.push_back({views.subspan(one.first_input, one.inputs), views.subspan(one.first_output, one.outputs),
                     one.attrs});
  }
  try {
    stream_->launch_many(*prepared.launches[first].kernel, nodes);
  } catch (const DeviceError& error) {
    const Graph& graph = program_.segments[prepared.segment].graph;
    throw DeviceError(fmt::format("{} nodes [{}] at once (segment '{}'): {}", nodes.size(),
                                  graph.nodes[prepared.launches[first].node].op->name, graph.name,
                                  error.what()));
  }
}

void Executor::launch(const Prepared& prepared, const Launch& one) {
  const std::span<const TensorView> views(prepared.views);
  const auto inputs = views.subspan(one.first_input, one.inputs),
             outputs = views.subspan(one.first_output, one.outputs);
  try {
    stream_->launch(*one.kernel, inputs, outputs, *one.attrs, one.workspace, communicator());
  } catch (const DeviceError& error) {
    const Segment& segment = program_.segments[prepared.segment];
    throw DeviceError(fmt::format("[{}] {} -> {} (segment '{}'): {}", segment.graph.nodes[one.node].op->name,
                                  types_of(inputs), types_of(outputs), segment.graph.name, error.what()));
  }
}

void Executor::finish(const Prepared& prepared) {
  const Segment& segment = program_.segments[prepared.segment];
  for (const Update& copy : segment.memory.copies)
    stream_->copy(prepared.addresses[copy.state], prepared.addresses[copy.value],
                  segment.graph.type(copy.state).bytes());
}

// With marks: one before the first group, and one behind each.
void Executor::launch_groups(const Prepared& prepared, int first_group, int last_group, Marks* marks) {
  if (marks) marks->push_back(stream_->mark());
  int first = first_group == 0 ? 0 : prepared.group_ends[first_group - 1];
  for (int group = first_group; group < last_group; ++group) {
    launch_group(prepared, first, prepared.group_ends[group]);
    if (marks) marks->push_back(stream_->mark());
    if (communicator()) communicator()->progress();
    first = prepared.group_ends[group];
  }
}

// Kernels, addresses and attributes of a segment on a slot never change, so that its launches can be noted
// down. Not at the first run, in which kernels set up what they need, and not those that speak with other
// ranks: what they do is not all on the stream. A device may fail to note down at one time and not at
// another.
void Executor::launch_pieces(Prepared& prepared) {
  constexpr int kLastTry = 5;
  const bool note_down = ++prepared.runs > 1 && prepared.runs <= kLastTry && !timer_;
  for (int group = 0; Piece & piece : prepared.pieces) {
    const bool last = &piece == &prepared.pieces.back();
    const auto launch = [&] {
      launch_groups(prepared, group, piece.group_end);
      if (last) finish(prepared);
    };
    if (note_down && piece.kind == Piece::Kind::kCompute && !piece.replay)
      piece.replay = stream_->capture(std::ref(launch));  // as small as a function takes
    if (timer_) {
      launch_timed(prepared, group, piece);
      if (last) finish(prepared);
    } else if (piece.replay) {
      piece.replay->launch();
    } else {
      launch();
    }
    if (piece.ends_early_reads)
      prepared_[static_cast<size_t>(prepared.segment)].early_read = stream_->record();
    group = piece.group_end;
  }
  if (prepared.pieces.empty()) finish(prepared);
}

const Executor::Prepared& Executor::last(int segment) const {
  const SegmentSlots& prepared = prepared_.at(segment);
  return prepared.slots[prepared.last];
}

void Executor::run(int segment, int64_t slot) {
  SegmentSlots& slots = prepared_.at(segment);
  slots.last = static_cast<int>(slot % std::ssize(slots.slots));
  Prepared& prepared = slots.slots[slots.last];
  await_next_inputs(slots);
  for (const GroupUse& use : file_uses_[static_cast<size_t>(segment)])
    use.reads ? files_->expect(use.group) : files_->take(use.group);
  if (observer_)
    launch_observed(prepared);
  else
    launch_pieces(prepared);
}

std::byte* Executor::input_address(int segment, std::string_view name, size_t bytes) const {
  const Graph& graph = program_.segments.at(segment).graph;
  const ValueId id = graph.find(name);
  if (id == kNoValue || graph.values[id].kind != Value::Kind::kInput)
    throw_error("segment '{}' has no input '{}'", graph.name, name);
  if (graph.type(id).bytes() != bytes) {
    throw_error("input '{}' is {} ({} bytes), but {} bytes were given", name, to_string(graph.type(id)),
                graph.type(id).bytes(), bytes);
  }
  return last(segment).addresses[id];
}

void Executor::await_next_inputs(SegmentSlots& segment) {
  if (segment.next_came) stream_->wait_for(*segment.next_came);
  segment.next_came.reset();
}

bool Executor::set_next_input(int segment, std::string_view name, const void* data, size_t bytes) {
  SegmentSlots& slots = prepared_.at(segment);
  const ValueId id = program_.segments[segment].graph.find(name);
  if (!slots.early_read || std::ranges::find(slots.early, id) == slots.early.end()) return false;
  if (!uploads_) uploads_ = device_.make_stream();
  uploads_->wait_for(*slots.early_read);
  uploads_->upload(input_address(segment, name, bytes), data, bytes);
  slots.next_came = uploads_->record();
  return true;
}

void Executor::set_input(int segment, std::string_view name, const void* data, size_t bytes) {
  await_next_inputs(prepared_.at(segment));
  stream_->upload(input_address(segment, name, bytes), data, bytes);
}

void Executor::tell(std::string_view name, float value) {
  for (size_t s = 0; s < program_.segments.size(); ++s) {
    const Graph& graph = program_.segments[s].graph;
    const ValueId found = graph.find(name);
    if (found != kNoValue && graph.values[found].kind == Value::Kind::kInput)
      set_input(static_cast<int>(s), name, &value, sizeof value);
  }
}

void Executor::read_output(int segment, std::string_view name, void* data, size_t bytes) {
  const Graph& graph = program_.segments.at(segment).graph;
  for (const Output& output : graph.outputs) {
    if (output.name != name) continue;
    if (const size_t expected = graph.type(output.value).bytes(); expected != bytes)
      throw_error("output '{}' has {} bytes, but {} were asked for", name, expected, bytes);
    stream_->download(data, last(segment).addresses[output.value], bytes);
    if (reaching_) reaching_->progress();  // or it may be what a rank that is gone has left
    return;
  }
  throw_error("segment '{}' has no output '{}'", graph.name, name);
}

float Executor::scalar_output(int segment, std::string_view name) {
  float value = 0;
  read_output(segment, name, &value, sizeof value);
  return value;
}

const State& Executor::find_state(std::string_view name) const {
  const State* state = program_.find_state(name);
  if (!state) throw_error("the program has no state '{}'", name);
  return *state;
}

const TensorType& Executor::state_type(std::string_view name) const {
  return find_state(name).type;
}

std::byte* Executor::stretch(std::string_view name, size_t offset, size_t bytes) const {
  const State& state = find_state(name);
  // Slots with places of their own do not lie one after another.
  const size_t size = state.stride() * static_cast<size_t>(state.places.empty() ? state.slots : 1);
  if (offset > size || bytes > size - offset)
    throw_error("state '{}' has {} bytes of memory, but {} from byte {} on were asked for", name, size, bytes,
                offset);
  return state_address(state.offset) + offset;
}

std::byte* Executor::slot_memory(const State& state, int64_t slot) const {
  return state_address(state.place(slot));
}

void Executor::synchronize() {
  stream_->synchronize();
}

void Executor::write_state(std::string_view name, const void* data, size_t bytes) {
  if (const size_t expected = state_type(name).bytes(); expected != bytes)
    throw_error("state '{}' has {} bytes, but {} were given", name, expected, bytes);
  write_state(name, 0, data, bytes);
}

void Executor::read_state(std::string_view name, void* data, size_t bytes) {
  if (const size_t expected = state_type(name).bytes(); expected != bytes)
    throw_error("state '{}' has {} bytes, but {} were asked for", name, expected, bytes);
  read_state(name, 0, data, bytes);
}

// What a stretch of a state that rests in a file has in each group, as moved(group, offset there, offset in
// the stretch, bytes).
template <typename Move>
void Executor::for_each_group(const State& state, size_t offset, size_t bytes, const Move& move) const {
  const size_t within = state.offset - program_.groups[state.group].offset;
  const size_t in_each = state.group_rows == 0 ? state.stride() : state.group_rows * state.row_bytes();
  for (size_t done = 0; done < bytes;) {
    const size_t at = (offset + done) % in_each, part = std::min(bytes - done, in_each - at);
    move(state.group + static_cast<int>((offset + done) / in_each), within + at, done, part);
    done += part;
  }
}

void Executor::write_state(std::string_view name, size_t offset, const void* data, size_t bytes) {
  std::byte* memory = stretch(name, offset, bytes);
  const State& state = find_state(name);
  if (state.group < 0) return stream_->upload(memory, data, bytes);
  synchronize();
  for_each_group(state, offset, bytes, [&](int group, size_t there, size_t done, size_t part) {
    files_->write(group, there, static_cast<const std::byte*>(data) + done, part);
  });
}

void Executor::read_state(std::string_view name, size_t offset, void* data, size_t bytes) {
  const std::byte* memory = stretch(name, offset, bytes);
  const State& state = find_state(name);
  if (state.group < 0) return stream_->download(data, memory, bytes);
  synchronize();
  for_each_group(state, offset, bytes, [&](int group, size_t there, size_t done, size_t part) {
    files_->read(group, there, static_cast<std::byte*>(data) + done, part);
  });
}

}  // namespace trireme

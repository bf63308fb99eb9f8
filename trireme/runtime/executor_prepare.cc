// What is settled once, so that a run decides nothing: of every segment on every slot the kernels, the
// addresses and the attributes, which launches go together, and which pieces are replayed.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <ranges>

#include "trireme/runtime/executor.h"

namespace trireme {
namespace {

// Where what a segment has at an offset of the states is for a slot; `moving` are those of its states that
// have several. Stashes of one segment that share memory do so for every slot.
size_t offset_for_slot(const std::vector<const State*>& moving, size_t offset, int slot) {
  for (const State* state : moving) {
    if (offset >= state->offset && offset < state->offset + state->stride())
      return state->place(slot) + (offset - state->offset);
  }
  return offset;
}

}  // namespace

void Executor::prepare(int segment) {
  const Segment& s = program_.segments[segment];
  int slots = 1;  // after so many, all states are at the first of theirs again
  for (const Value& value : s.graph.values) {
    if (value.kind == Value::Kind::kState) slots = std::lcm(slots, find_state(value.name).slots);
  }
  SegmentSlots& prepared = prepared_.emplace_back();
  prepared.inputs = memory(s.memory.input_bytes);
  find_early_inputs(segment);
  for (int slot = 0; slot < slots; ++slot) prepared.slots.push_back(prepare(segment, slot, prepared.inputs));
}

Executor::Prepared Executor::prepare(int index, int slot, const Buffer& inputs) const {
  const Segment& segment = program_.segments[index];
  const Graph& graph = segment.graph;
  Prepared prepared;
  prepared.segment = index;
  std::vector<const State*> moving;
  for (const Value& value : graph.values) {
    if (value.kind == Value::Kind::kState && slot > 0 && find_state(value.name).slots > 1)
      moving.push_back(&find_state(value.name));
  }
  for (const Location& location : segment.memory.values) {
    prepared.addresses.push_back(location.space == Space::kStates
                                     ? state_address(offset_for_slot(moving, location.offset, slot))
                                 : location.space == Space::kArena ? arena_.data() + location.offset
                                 : location.space == Space::kComm  ? comm_.data() + location.offset
                                                                   : inputs.data() + location.offset);
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!needs_kernel(node)) continue;
    Launch launch{&kernel_for(device_, graph, node),
                  static_cast<int>(prepared.views.size()),
                  static_cast<int>(node.inputs.size()),
                  static_cast<int>(prepared.views.size() + node.inputs.size()),
                  static_cast<int>(node.outputs.size()),
                  arena_.data() + segment.memory.workspace[n],
                  &node.attrs,
                  static_cast<int>(n)};
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (ValueId id : *ids)
        prepared.views.push_back({prepared.addresses[id], graph.type(id).dtype, graph.type(id).shape});
    }
    prepared.launches.push_back(launch);
  }
  group(prepared);
  cut_into_pieces(prepared);
  return prepared;
}

// Neighbours with the same kernel, where it takes many at once and none of them touches what another writes.
// The plan of memory lets a node write where an earlier one has read for the last time, so that addresses
// are compared, not values.
void Executor::group(Prepared& prepared) {
  struct Stretch {
    const std::byte *begin, *end;
  };
  std::vector<Stretch> read, written;
  const auto stretches = [&](int first, int count) {
    std::vector<Stretch> result;
    for (const TensorView& view : std::span(prepared.views).subspan(first, count)) {
      const auto* data = static_cast<const std::byte*>(view.data);
      result.push_back({data, data + view.bytes()});
    }
    return result;
  };
  const auto touches = [](const std::vector<Stretch>& all, const Stretch& one) {
    return std::ranges::any_of(all, [&](const Stretch& s) { return s.begin < one.end && one.begin < s.end; });
  };
  const auto depends = [&](const Launch& launch) {
    for (const Stretch& input : stretches(launch.first_input, launch.inputs)) {
      if (touches(written, input)) return true;
    }
    for (const Stretch& output : stretches(launch.first_output, launch.outputs)) {
      if (touches(written, output) || touches(read, output)) return true;
    }
    return false;
  };
  const std::vector<Launch>& all = prepared.launches;
  for (size_t n = 0; n < all.size(); ++n) {
    const bool joins =
        n > 0 && all[n].kernel == all[n - 1].kernel && all[n].kernel->run_many && !depends(all[n]);
    if (!joins) {
      if (n > 0) prepared.group_ends.push_back(static_cast<int>(n));
      read.clear();
      written.clear();
    }
    std::ranges::copy(stretches(all[n].first_input, all[n].inputs), std::back_inserter(read));
    std::ranges::copy(stretches(all[n].first_output, all[n].outputs), std::back_inserter(written));
  }
  if (!all.empty()) prepared.group_ends.push_back(static_cast<int>(all.size()));
}

// Where the host writes the device's memory by itself there is nothing to gain.
void Executor::find_early_inputs(int segment) {
  if (device_.memory() == Device::Memory::kOfHost) return;
  const Graph& graph = program_.segments[segment].graph;
  const std::vector<std::vector<int>> readers = graph.readers();
  constexpr size_t kLeastBytes = size_t{1} << 20;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    const bool early = !readers[i].empty() && readers[i].back() < std::ssize(graph.nodes) / 2;
    if (value.role == Role::kBatch && value.kind == Value::Kind::kInput &&
        value.type.bytes() >= kLeastBytes && early)
      prepared_[static_cast<size_t>(segment)].early.push_back(static_cast<ValueId>(i));
  }
}

void Executor::cut_into_pieces(Prepared& prepared) const {
  const Graph& graph = program_.segments[prepared.segment].graph;
  const std::vector<ValueId>& early = prepared_[static_cast<size_t>(prepared.segment)].early;
  int last_early = -1;  // the group that reads one of them last
  for (int group = 0, n = 0; group < std::ssize(prepared.group_ends) && !early.empty(); ++group) {
    for (; n < prepared.group_ends[group]; ++n) {
      const Node& node = graph.nodes[prepared.launches[n].node];
      if (std::ranges::find_first_of(node.inputs, early) != node.inputs.end()) last_early = group;
    }
  }
  for (int group = 0, first = 0; group < std::ssize(prepared.group_ends);
       first = prepared.group_ends[group++]) {
    const bool collective = graph.nodes[prepared.launches[first].node].op->collective.has_value();
    const Piece::Kind kind = collective ? Piece::Kind::kCollective : Piece::Kind::kCompute;
    if (prepared.pieces.empty() || collective || prepared.pieces.back().kind != kind ||
        prepared.pieces.back().ends_early_reads)
      prepared.pieces.push_back({group, kind});
    prepared.pieces.back().group_end = group + 1;
    prepared.pieces.back().ends_early_reads = group == last_early;
  }
}

}  // namespace trireme

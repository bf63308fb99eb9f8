// See track.h.
#include "trireme/sim/track.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/ops/products.h"
#include "trireme/ops/table.h"
#include "trireme/program/file_turns.h"
#include "trireme/program/waits.h"
#include "trireme/sim/op_time.h"

namespace trireme::sim {
namespace {

using Phase = OpRecord::Collective::Phase;
constexpr std::string_view kFillList = "fill";

double bytes_of(const Graph& graph, ValueId value) {
  return static_cast<double>(graph.type(value).bytes());
}

class Maker {
 public:
  Maker(const Program& program, const DeviceClass& device) : program_(program), device_(device) {}

  Track run(int steps) {
    check_op_names(device_, ops());
    if (!program_.groups.empty() && device_.offload_bytes_per_second <= 0)
      throw_error(
          "the plan offloads states, and the cluster does not say how fast they come and go: the device "
          "class '{}' "
          "needs offload_bytes_per_second",
          device_.name);
    const ActionList* step = program_.find_list("step");
    TRIREME_CHECK(step != nullptr);
    if (const ActionList* fill = program_.find_list(kFillList)) add_list(*fill);
    for (int i = 0; i < steps; ++i) add_list(*step);
    return std::move(track_);
  }

 private:
  void add_list(const ActionList& list) {
    const Waits waits = waits_of(program_, list);
    const int before = static_cast<int>(track_.actions.size());
    const auto in_track = [&](std::vector<int> numbers) {
      for (int& number : numbers) number += before;
      return numbers;
    };
    for (size_t i = 0; i < list.actions.size(); ++i) {
      TrackAction& added = track_.actions.emplace_back();
      fill_in(list.actions[i], added);
      added.waits = in_track(waits.before[i]);
    }
    if (!list.actions.empty()) track_.actions.back().waits_behind = in_track(waits.at_end);
  }

  void fill_in(const Action& action, TrackAction& added) {
    added.kind = action.kind;
    if (action.kind == Action::Kind::kRun) {
      const int number = program_.segment(action.what);
      const auto [entry, fresh] = made_.try_emplace(number, static_cast<int>(track_.segments.size()));
      if (fresh) add_segment(program_.segments[number]);
      added.segment = entry->second;
      added.microbatch = action.microbatch;
      for (const GroupUse& use : group_uses(program_, program_.segments[number].graph))
        added.staging.push_back(program_.groups[use.group].slot);
    } else if (action.is_of_file()) {
      const FileGroup& group = program_.groups[program_.group(action.what)];
      added.staging = {group.slot};
      added.bytes = static_cast<double>(group.bytes);
    } else {
      const State* state = program_.find_state(action.what);
      const int pipe = program_.mesh.find(kPipeAxis);
      TRIREME_CHECK((state != nullptr && pipe >= 0));
      added.stage = program_.mesh.coordinate(action.peer, pipe);
      added.bytes = static_cast<double>(state->type.bytes());
    }
  }

  void add_segment(const Segment& segment) {
    const Graph& graph = segment.graph;
    items_ = &track_.segments.emplace_back();
    track_.names.push_back(graph.name);
    std::map<int, int> started;  // node -> item
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (!node.op->collective) {
        const NodeTime time = node_time(graph, node, device_);
        if (time.seconds > 0)
          work().add(time.seconds, product_flops(graph, node), time.launches ? device_.issue_seconds : 0);
        continue;
      }
      const Phase phase = node.op->collective->phase;
      if (node.op->collective->sends()) {
        started[static_cast<int>(n)] = static_cast<int>(items_->size());
        items_->push_back({.kind = Item::Kind::kStart, .meeting = static_cast<int>(track_.meetings.size())});
        track_.meetings.push_back(meeting(segment, static_cast<int>(n)));
      }
      if (phase == Phase::kStart) continue;
      const int starter = phase == Phase::kWait ? graph.values[node.inputs[0]].node : static_cast<int>(n);
      items_->push_back({.kind = Item::Kind::kWait,
                         .start = started.at(starter),
                         .beside = phase == Phase::kWait ? Item::Beside::kWork : Item::Beside::kNothing});
    }
  }

  Work& work() {
    if (items_->empty() || items_->back().kind != Item::Kind::kWork) items_->emplace_back();
    return items_->back().work;
  }

  Meeting meeting(const Segment& segment, int number) const {
    const Graph& graph = segment.graph;
    const Node& node = graph.nodes[number];
    Meeting result{.kind = node.op->collective->kind, .axis = program_.mesh.axis(node.attrs.text("axis"))};
    result.bytes_sent =
        trireme::bytes_sent(*node.op, graph.types_of(node.inputs), graph.types_of(node.outputs), node.attrs);
    result.calls = call_bytes(segment, number);
    return result;
  }

  const Program& program_;
  const DeviceClass& device_;
  Track track_;
  std::map<int, int> made_;  // segments of the program -> of the track
  std::vector<Item>* items_ = nullptr;
};

}  // namespace

void Work::add(double node_seconds, double node_flops, double node_issue_seconds) {
  issue_seconds += node_issue_seconds;
  // The device begins the node when it has come to it, and when the host has given it.
  from_issue = std::max(from_issue, issue_seconds) + node_seconds;
  seconds += node_seconds;
  flops += node_flops;
}

std::vector<double> call_bytes(const Segment& segment, int number) {
  const Node& node = segment.graph.nodes[number];
  const bool gathers = node.op->collective->kind == CollectiveKind::kAllGather;
  const std::vector<ValueId>& tensors = gathers ? node.outputs : node.inputs;
  const std::vector<std::vector<int64_t>>& runs = segment.memory.runs;
  const std::vector<int64_t> together = number < static_cast<int>(runs.size()) && !runs[number].empty()
                                            ? runs[number]
                                            : std::vector<int64_t>{static_cast<int64_t>(tensors.size())};
  std::vector<double> calls;
  size_t next = 0;
  for (const int64_t count : together) {
    double bytes = 0;
    for (int64_t i = 0; i < count && next < tensors.size(); ++i)
      bytes += bytes_of(segment.graph, tensors[next++]);
    calls.push_back(bytes);
  }
  return calls;
}

bool is_asynchronous(const Program& program) {
  return program.find_list(kFillList) != nullptr;
}

Track track_of(const Program& program, const DeviceClass& device, int steps) {
  return Maker(program, device).run(steps);
}

}  // namespace trireme::sim

// See track.h.
#include "trireme/sim/track.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "trireme/base/error.h"
#include "trireme/ops/products.h"
#include "trireme/ops/table.h"
#include "trireme/program/file_turns.h"
#include "trireme/program/trace_kind.h"
#include "trireme/program/waits.h"
#include "trireme/sim/op_time.h"

namespace trireme::sim {
namespace {

using Phase = OpRecord::Collective::Phase;

// Whether steps run it, by themselves or as messages come; an evaluation or a meeting is none of theirs.
bool is_of_steps(const When& when) {
  using enum When::What;
  if (when.kind != When::Kind::kAsked)
    return when.kind != When::Kind::kEvaluate && when.kind != When::Kind::kArrival;
  return when.what == kTell || when.what == kMix || when.what == kOffer || when.what == kAnswer ||
         when.what == kSettle;
}

class Maker {
 public:
  Maker(const Program& program, const DeviceClass& device, Overlap overlap)
      : program_(program), device_(device), overlap_(overlap) {}

  Track run() {
    check_op_names(device_, ops());
    if (!program_.groups.empty() && device_.offload_bytes_per_second <= 0)
      throw_error(
          "the plan offloads states, and the cluster does not say how fast they come and go: the device "
          "class '{}' needs offload_bytes_per_second",
          device_.name);
    for (const ActionList& list : program_.lists) {
      TrackList& added = track_.lists.emplace_back(TrackList{list.name, list.when, {}});
      if (is_of_steps(added.when)) added.actions = actions_of(list);
    }
    return std::move(track_);
  }

 private:
  std::vector<TrackAction> actions_of(const ActionList& list) {
    const Waits waits = waits_of(program_, list);
    std::vector<TrackAction> actions;
    for (size_t i = 0; i < list.actions.size(); ++i) {
      fill_in(list.actions[i], actions.emplace_back());
      actions.back().waits = waits.before[i];
      if (overlap_ == Overlap::kNone && actions.back().kind == Action::Kind::kSend)
        actions.back().waits_behind = {static_cast<int>(i)};
    }
    if (!actions.empty())
      actions.back().waits_behind.insert(actions.back().waits_behind.end(), waits.at_end.begin(),
                                         waits.at_end.end());
    return actions;
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
      return;
    }
    if (action.is_of_file()) {
      const FileGroup& group = program_.groups[program_.group(action.what)];
      added.staging = {group.slot};
      added.bytes = static_cast<double>(group.bytes);
      return;
    }
    const State* state = program_.find_state(action.what);
    TRIREME_CHECK(state != nullptr);
    added.bytes = static_cast<double>(state->type.bytes());
    if (action.is_message()) {
      std::tie(added.axis, added.place) = place_of(action.peer);
      return;
    }
    const std::pair key(action.what, action.slot % state->slots);
    added.sum = sums_.try_emplace(key, static_cast<int>(sums_.size())).first->second;
    if (action.kind == Action::Kind::kAwait) return;
    const int axis = program_.mesh.axis(replica_axis(program_.mesh));
    added.meeting = static_cast<int>(track_.meetings.size());
    track_.meetings.push_back(
        {.kind = CollectiveKind::kAllReduce,
         .axis = axis,
         .calls = {added.bytes},
         .bytes_sent = bytes_sent(CollectiveKind::kAllReduce, program_.mesh.axes()[axis].size, added.bytes,
                                  added.bytes)});
  }

  // Along which axis a rank lies elsewhere, and where.
  std::pair<int, int> place_of(int peer) const {
    const Mesh& mesh = program_.mesh;
    std::pair<int, int> found = {-1, 0};
    for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis) {
      const int place = mesh.coordinate(peer, axis);
      if (place == mesh.coordinate(program_.rank, axis)) continue;
      if (found.first >= 0)
        throw_error(
            "rank {} has a message for rank {}, which lies elsewhere along two axes of the mesh '{}': the "
            "clock has no time for such a message",
            program_.rank, peer, to_string(mesh));
      found = {axis, place};
    }
    return found;
  }

  void add_segment(const Segment& segment) {
    const Graph& graph = segment.graph;
    items_ = &track_.segments.emplace_back();
    track_.names.push_back(graph.name);
    track_.kinds.push_back(trace_kind(segment));
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
        if (overlap_ == Overlap::kNone)
          items_->push_back({.kind = Item::Kind::kWait, .start = started[static_cast<int>(n)]});
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
    const Node& node = segment.graph.nodes[number];
    return {.kind = node.op->collective->kind,
            .axis = program_.mesh.axis(node.attrs.text("axis")),
            .calls = call_bytes(segment, number),
            .bytes_sent = trireme::bytes_sent(segment, number),
            .parts = has_equal_parts(segment, number) ? Parts::kEqual : Parts::kUnequal};
  }

  const Program& program_;
  const DeviceClass& device_;
  const Overlap overlap_;
  Track track_;
  std::map<int, int> made_;                          // segments of the program -> of the track
  std::map<std::pair<std::string, int>, int> sums_;  // by state and slot
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

int Track::list(const When& when) const {
  const auto found = std::ranges::find(lists, when, &TrackList::when);
  return found == lists.end() ? -1 : static_cast<int>(found - lists.begin());
}

Track track_of(const Program& program, const DeviceClass& device, Overlap overlap) {
  return Maker(program, device, overlap).run();
}

}  // namespace trireme::sim

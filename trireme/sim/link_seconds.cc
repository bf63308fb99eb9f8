// See link_seconds.h.
#include "trireme/sim/link_seconds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/comparison.h"
#include "trireme/exchange/consistency.h"
#include "trireme/ops/table.h"
#include "trireme/plan/servers.h"
#include "trireme/sim/track.h"

namespace trireme::sim {
namespace {

comm::Collective collective_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return comm::Collective::all_reduce;
    case CollectiveKind::kReduceScatter:
      return comm::Collective::reduce_scatter;
    case CollectiveKind::kAllGather:
      return comm::Collective::all_gather;
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kShift:
      break;
  }
  return comm::Collective::all_to_all;
}

double message_seconds(double bytes, const comm::EmulatedLink& link) {
  return link.costs().alpha_seconds + bytes * link.costs().beta_seconds_per_byte;
}

double call_seconds(comm::Collective collective, double bytes, int ranks, const comm::EmulatedLink& link) {
  const comm::Call call{.collective = collective, .dtype = DType::u8, .count = static_cast<int64_t>(bytes)};
  const comm::Choice choice = comm::fixed_choice(call, /*native_offered=*/false);
  const comm::Steps steps = comm::make_steps(collective, choice.algorithm, ranks);
  const std::vector<size_t> chunks(static_cast<size_t>(steps.chunks()),
                                   static_cast<size_t>(bytes / static_cast<double>(steps.chunks())));
  return comm::predict_seconds(steps, chunks, choice.segment_bytes, comm::costs_over(link));
}

// The time of a rank that does nothing but wait, and the link it sends over: calls that are under way
// together wait for latency once, and for each other's bytes.
class Clock {
 public:
  // A call that takes so long by itself, so much of it for the bytes that this rank sends; when it is
  // through.
  double begin(double seconds, double sending_seconds) {
    const double first = std::max(now_, free_);
    free_ = first + sending_seconds;
    return first + seconds;
  }
  void wait_until(double seconds) { now_ = std::max(now_, seconds); }
  double now() const { return now_; }

 private:
  double now_ = 0, free_ = 0;
};

using Phase = OpRecord::Collective::Phase;

void run(const Program& program, const Segment& segment, const comm::EmulatedLink& link, Clock& clock) {
  const Graph& graph = segment.graph;
  std::map<int, double> through;  // by the node that begins it
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.op->collective) continue;
    if (node.op->collective->sends()) {
      const int ranks = program.mesh.axes()[program.mesh.axis(node.attrs.text("axis"))].size;
      const std::vector<double> calls = call_bytes(segment, n);
      const double bytes = std::accumulate(calls.begin(), calls.end(), 0.0);
      const double sending_seconds =
          link.costs().beta_seconds_per_byte *
          bytes_sent(*node.op, graph.types_of(node.inputs), graph.types_of(node.outputs), node.attrs);
      const CollectiveKind kind = node.op->collective->kind;
      for (const double call : calls) {
        const double seconds = kind == CollectiveKind::kShift
                                   ? message_seconds(call, link)
                                   : call_seconds(collective_of(kind), call, ranks, link);
        through[n] =
            std::max(through[n], clock.begin(seconds, bytes > 0 ? sending_seconds * call / bytes : 0));
      }
    }
    const Phase phase = node.op->collective->phase;
    if (phase == Phase::kStart) continue;
    clock.wait_until(through.at(phase == Phase::kWait ? graph.values[node.inputs[0]].node : n));
  }
}

}  // namespace

double link_seconds(const Program& program, const ActionList& list, const comm::EmulatedLink& link) {
  double seconds = 0, sent = 0, received = 0;
  Clock clock;
  for (const Action& action : list.actions) {
    if (action.is_message())
      (action.kind == Action::Kind::kSend ? sent : received) +=
          static_cast<double>(program.find_state(action.what)->type.bytes());
    // As if it were waited for where it is begun: how much of it steps hide depends on how long they take.
    if (action.kind == Action::Kind::kReduce)
      seconds += call_seconds(comm::Collective::all_reduce,
                              static_cast<double>(program.find_state(action.what)->type.bytes()),
                              program.mesh.axes()[program.mesh.axis(kReplicaAxis)].size, link);
    if (action.kind == Action::Kind::kRun)
      run(program, program.segments[program.segment(action.what)], link, clock);
  }
  seconds += clock.now();
  // Messages are all under way together, both ways at once.
  const double most = std::max(sent, received);
  if (most > 0) seconds += message_seconds(most, link);
  return seconds;
}

double link_seconds_in_step(const Program& program, const comm::EmulatedLink& link) {
  double seconds = link_seconds(program, *program.find_list("step"), link);
  for (const ActionList& list : program.lists) {
    if (list.every > 0) seconds += link_seconds(program, list, link) / static_cast<double>(list.every);
  }
  return seconds;
}

double agreement_seconds_in_step(const Plan& plan, const comm::EmulatedLink& link) {
  const std::optional<Consistency> how = consistency_of(plan);
  const bool late = how && how->kind == Consistency::Kind::kDelayed && how->settings.whole("delay") > 0;
  if (late || (how && how->at_own_pace()) || servers_of(plan)) return 0;
  double seconds = 0;
  for (const Axis& axis : plan.mesh.axes()) {
    if (axis.size > 1)
      seconds += call_seconds(comm::Collective::all_reduce, sizeof(int32_t), axis.size, link);
  }
  return seconds / static_cast<double>(how ? how->period() : 1);
}

}  // namespace trireme::sim

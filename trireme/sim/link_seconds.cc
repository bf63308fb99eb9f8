// See link_seconds.h.
#include "trireme/sim/link_seconds.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/comparison.h"
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

}  // namespace

double link_seconds(const Program& program, const ActionList& list, const comm::EmulatedLink& link) {
  double seconds = 0, sent = 0, received = 0;
  for (const Action& action : list.actions) {
    if (action.is_message())
      (action.kind == Action::Kind::kSend ? sent : received) +=
          static_cast<double>(program.find_state(action.what)->type.bytes());
    // As if it were waited for where it is begun: how much of it steps hide depends on how long they take.
    if (action.kind == Action::Kind::kReduce)
      seconds += call_seconds(comm::Collective::all_reduce,
                              static_cast<double>(program.find_state(action.what)->type.bytes()),
                              program.mesh.axes()[program.mesh.axis(kReplicaAxis)].size, link);
    if (action.kind != Action::Kind::kRun) continue;
    const Segment& segment = program.segments[program.segment(action.what)];
    for (size_t n = 0; n < segment.graph.nodes.size(); ++n) {
      const Node& node = segment.graph.nodes[n];
      if (!node.op->collective || !node.op->collective->sends()) continue;
      const int ranks = program.mesh.axes()[program.mesh.axis(node.attrs.text("axis"))].size;
      // Calls of one node are under way together: they wait for the link once, and share it.
      const std::vector<double> calls = call_bytes(segment, static_cast<int>(n));
      const double bytes = std::accumulate(calls.begin(), calls.end(), 0.0);
      const CollectiveKind kind = node.op->collective->kind;
      seconds += kind == CollectiveKind::kShift ? message_seconds(bytes, link)
                                                : call_seconds(collective_of(kind), bytes, ranks, link);
    }
  }
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

}  // namespace trireme::sim

// Builds the nodes from the lists, then takes events in order of time; see timed_run.h.
#include "trireme/comm/collective/timed_run.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/comm/collective/step_order.h"

namespace trireme::comm {
namespace {

constexpr size_t kWindow = 4;  // segments of a lane that are sent and not yet applied, as in the engine

}  // namespace

TimedRun::TimedRun(const Steps& steps, std::span<const size_t> chunk_bytes, size_t segment_bytes,
                   const Costs& costs)
    : steps_(steps), costs_(costs), segment_bytes_(segment_bytes) {
  TRIREME_CHECK(segment_bytes != size_t{0});
  TRIREME_CHECK(static_cast<int>(chunk_bytes.size()) == steps.chunks());
  place_chunks(chunk_bytes);
  lane_index_.assign(static_cast<size_t>(steps.ranks()) * steps.ranks(), -1);
  for (int rank = 0; rank < steps.ranks(); ++rank) build_rank(rank);
  connect();

  ports_.resize(steps.ranks());
  receiving_ports_.resize(steps.ranks());
}

void TimedRun::place_chunks(std::span<const size_t> chunk_bytes) {
  size_t begin = 0;
  const auto place = [&](size_t bytes) {
    chunk_begin_.push_back(begin);
    chunk_end_.push_back(begin += bytes);
    empty_ &= bytes == 0;
  };
  for (const size_t bytes : chunk_bytes) place(bytes);
  for (int chunk = 0; chunk < steps_.scratch_chunks(); ++chunk) {
    place(chunk_bytes[steps_.sized_as(steps_.chunks() + chunk)]);
  }
}

int TimedRun::nodes_of(const Range& range) const {
  if (range.whole || range.end == range.begin) return 1;
  return static_cast<int>((range.end - range.begin + segment_bytes_ - 1) / segment_bytes_);
}

TimedRun::Lane& TimedRun::lane_of(int from, int to) {
  int& index = lane_index_[static_cast<size_t>(from) * steps_.ranks() + to];
  if (index < 0) {
    index = static_cast<int>(lanes_.size());
    lanes_.push_back({.from = from, .to = to, .nodes = {}, .receives = {}});
  }
  return lanes_[index];
}

void TimedRun::add_nodes(int rank, const Step& step, Range& range) {
  range.first_node = static_cast<int>(nodes_.size());
  for (int i = 0; i < nodes_of(range); ++i) {
    const size_t begin = range.begin + i * segment_bytes_;
    const size_t bytes = range.whole ? range.end - range.begin : std::min(segment_bytes_, range.end - begin);
    Node node{.rank = rank, .bytes = bytes};
    if (step.kind != Step::Kind::send && step.action == Action::add)
      node.work_seconds = costs_.reduce_seconds(bytes);
    const int number = static_cast<int>(nodes_.size());
    if (step.kind == Step::Kind::send) {
      Lane& lane = lane_of(rank, step.peer);
      node.sends = true;
      node.lane = static_cast<int>(&lane - lanes_.data());
      lane.nodes.push_back(number);
    } else if (step.kind == Step::Kind::receive) {
      Lane& lane = lane_of(step.peer, rank);
      node.lane = static_cast<int>(&lane - lanes_.data());
      node.waits_for = 1;
      lane.receives.push_back(number);
    }
    nodes_.push_back(node);
  }
}

void TimedRun::build_rank(int rank) {
  const std::span<const Step> list = steps_.of(rank);
  StepOrder order(static_cast<int>(chunk_begin_.size()));
  std::vector<Range> ranges(list.size());
  std::vector<uint32_t> before;
  for (uint32_t s = 0; s < list.size(); ++s) {
    const Step& step = list[s];
    Range& range = ranges[s];
    range.begin = chunk_begin_[step.chunk];
    range.end = chunk_end_[step.chunk + step.count - 1];
    range.whole = step.kind == Step::Kind::local;
    if (range.begin == range.end && !empty_) continue;
    before.clear();
    order.add(step, s, before);
    add_nodes(rank, step, range);
    for (const uint32_t earlier : before) wait(range, ranges[earlier]);
  }
}

// Segments of a step are done in order, so one segment of the earlier step stands for all before it.
void TimedRun::wait(const Range& later, const Range& earlier) {
  const bool cut = !later.whole && !earlier.whole && !empty_;
  for (int i = 0; i < nodes_of(later); ++i) {
    int last = nodes_of(earlier) - 1;
    if (cut) {
      const size_t begin = later.begin + i * segment_bytes_;
      const size_t end = std::min(begin + segment_bytes_, later.end);
      if (end <= earlier.begin || begin >= earlier.end) continue;
      last = static_cast<int>((std::min(end, earlier.end) - earlier.begin - 1) / segment_bytes_);
    }
    edges_.push_back({earlier.first_node + last, later.first_node + i});
    ++nodes_[later.first_node + i].waits_for;
  }
}

// Sends and receives of a pair match in order; edges are sorted by the node that others wait for.
void TimedRun::connect() {
  for (Lane& lane : lanes_) {
    TRIREME_CHECK(lane.nodes.size() == lane.receives.size());
    for (size_t i = 0; i < lane.nodes.size(); ++i) nodes_[lane.nodes[i]].other = lane.receives[i];
  }
  nodes_.emplace_back();  // its first_edge is the end of the last one's
  for (const Edge& edge : edges_) ++nodes_[edge.earlier + 1].first_edge;
  for (size_t i = 1; i < nodes_.size(); ++i) nodes_[i].first_edge += nodes_[i - 1].first_edge;
  waiting_.resize(edges_.size());
  std::vector<int> filled(nodes_.size());
  for (const Edge& edge : edges_) {
    waiting_[nodes_[edge.earlier].first_edge + filled[edge.earlier]++] = edge.later;
  }
}

int TimedRun::rank_of(const Task& task) const {
  return nodes_[task.what == What::take ? nodes_[task.node].other : task.node].rank;
}

TimedRun::Port& TimedRun::port_of(const Task& task) {
  const bool other = costs_.ports == Ports::one_each_way && task.what != What::send;
  return (other ? receiving_ports_ : ports_)[rank_of(task)];
}

Transfer TimedRun::transfer_of(const Lane& lane, const Node& sent) const {
  return costs_.transfer(lane.from, lane.to, sent.bytes);
}

double TimedRun::seconds_of(const Task& task) const {
  const Node& node = nodes_[task.node];
  if (task.what == What::work) return node.work_seconds;
  const Transfer transfer = transfer_of(lanes_[node.lane], node);
  return task.what == What::send ? transfer.send_seconds : transfer.receive_seconds;
}

void TimedRun::ask(Task task, double now) {
  if (costs_.ports != Ports::unlimited) {
    Port& port = port_of(task);
    if (port.busy) return port.waiting.push(task);
    port.busy = true;
  }
  start(task, now);
}

void TimedRun::start(Task task, double now) {
  events_.push({now + seconds_of(task), Kind::over, task});
  if (task.what != What::send) return;
  const Node& node = nodes_[task.node];
  Lane& lane = lanes_[node.lane];
  const Transfer transfer = transfer_of(lane, node);
  lane.arrives_seconds = std::max(lane.arrives_seconds, now + transfer.delay_seconds);
  events_.push({lane.arrives_seconds, Kind::arrived, {lane.arrives_seconds, What::take, task.node}});
}

void TimedRun::release(const Task& task, double now) {
  if (costs_.ports == Ports::unlimited) return;
  Port& port = port_of(task);
  port.busy = !port.waiting.empty();
  if (!port.busy) return;
  const Task next = port.waiting.top();
  port.waiting.pop();
  start(next, now);
}

// The next message of a lane, if it has all it waits for.
void TimedRun::offer(Lane& lane, double now) {
  if (lane.asked || lane.next == lane.nodes.size() || lane.next >= lane.applied + kWindow) return;
  if (nodes_[lane.nodes[lane.next]].waits_for > 0) return;
  lane.asked = true;
  // Its turn among what the rank has to do is that of the time when it was ready, not when the one before it
  // in this lane was out.
  ask({nodes_[lane.nodes[lane.next]].ready_seconds, What::send, lane.nodes[lane.next]}, now);
}

void TimedRun::satisfy(int number, double now) {
  const Node& node = nodes_[number];
  if (--nodes_[number].waits_for > 0) return;
  nodes_[number].ready_seconds = now;
  if (!node.sends) return ask({now, What::work, number}, now);
  offer(lanes_[node.lane], now);
}

void TimedRun::finish(const Task& task, double now) {
  end_ = std::max(end_, now);
  if (task.what == What::take) return satisfy(nodes_[task.node].other, now);
  for (int i = nodes_[task.node].first_edge; i < nodes_[task.node + 1].first_edge; ++i) {
    satisfy(waiting_[i], now);
  }
  const Node& node = nodes_[task.node];
  if (node.lane < 0) return;
  Lane& lane = lanes_[node.lane];
  if (node.sends) {
    ++lane.next;
    lane.asked = false;
  } else {
    ++lane.applied;
  }
  offer(lane, now);
}

double TimedRun::run() {
  for (int i = 0; i + 1 < static_cast<int>(nodes_.size()); ++i) {
    if (nodes_[i].waits_for > 0) continue;
    if (!nodes_[i].sends) {
      ask({0, What::work, i}, 0);
    } else if (lanes_[nodes_[i].lane].nodes[0] == i) {
      offer(lanes_[nodes_[i].lane], 0);
    }
  }
  // All that is over at one time is known before anybody takes up something else.
  std::vector<Task> over;
  while (!events_.empty()) {
    const double now = events_.top().seconds;
    over.clear();
    for (; !events_.empty() && events_.top().seconds == now && events_.top().kind == Kind::over;
         events_.pop()) {
      over.push_back(events_.top().task);
    }
    for (const Task& task : over) finish(task, now);
    for (const Task& task : over) release(task, now);
    if (!over.empty()) continue;
    const Task arrived = events_.top().task;
    events_.pop();
    ask(arrived, now);
  }
  return end_;
}

}  // namespace trireme::comm

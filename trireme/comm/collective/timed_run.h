// One run of Steps against the clock. Every segment of a step is a node that waits for earlier nodes of its
// rank; what is ready competes for the ranks' time in order of time, then of the lists.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "trireme/comm/collective/cost.h"
#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

class TimedRun {
 public:
  TimedRun(const Steps& steps, std::span<const size_t> chunk_bytes, size_t segment_bytes, const Costs& costs);
  double run();

 private:
  struct Range {  // of a step, in its rank's memory; scratch lies behind the vector
    size_t begin = 0;
    size_t end = 0;
    int first_node = 0;
    bool whole = false;  // not cut: a local step
  };
  struct Node {
    int rank = 0;
    int lane = -1;  // of a send or a receive
    bool sends = false;
    int other = -1;      // of a send: its receive
    int waits_for = 0;   // nodes, and of a receive its message
    int first_edge = 0;  // in waiting_
    size_t bytes = 0;
    double work_seconds = 0;   // adding, of a receive or a local step
    double ready_seconds = 0;  // since when it waits for nothing
  };
  struct Lane {  // the sends from one rank to another
    int from = 0;
    int to = 0;
    std::vector<int> nodes;
    std::vector<int> receives;
    size_t next = 0;
    size_t applied = 0;
    bool asked = false;          // for the sender's time, for `next`
    double arrives_seconds = 0;  // when the one before does
  };
  // What a rank spends time on: adding what has come, taking a message, sending one.
  enum class What : uint8_t { work, take, send };
  // A message that has come to its receiver, a task that is over.
  enum class Kind : uint8_t { over, arrived };
  struct Task {
    double asked_seconds;
    What what;
    int node;
  };
  struct Event {
    double seconds;
    Kind kind;
    Task task;
  };
  // First come, first served, but what has been taken is added at once; then in the order of the lists.
  struct Later {
    bool operator()(const Task& a, const Task& b) const {
      if ((a.what == What::work) != (b.what == What::work)) return b.what == What::work;
      if (a.asked_seconds != b.asked_seconds) return a.asked_seconds > b.asked_seconds;
      if (a.what != b.what) return a.what > b.what;
      return a.node > b.node;
    }
    bool operator()(const Event& a, const Event& b) const {
      if (a.seconds != b.seconds) return a.seconds > b.seconds;
      if (a.kind != b.kind) return a.kind > b.kind;
      return (*this)(a.task, b.task);
    }
  };
  template <typename T>
  using Queue = std::priority_queue<T, std::vector<T>, Later>;
  struct Port {  // of a rank
    bool busy = false;
    Queue<Task> waiting;
  };

  void place_chunks(std::span<const size_t> chunk_bytes);
  void build_rank(int rank);
  void add_nodes(int rank, const Step& step, Range& range);
  void wait(const Range& later, const Range& earlier);
  int nodes_of(const Range& range) const;
  Lane& lane_of(int from, int to);
  void connect();

  int rank_of(const Task& task) const;
  Port& port_of(const Task& task);
  Transfer transfer_of(const Lane& lane, const Node& sent) const;
  double seconds_of(const Task& task) const;
  void ask(Task task, double now);  // for the rank's time
  void start(Task task, double now);
  void finish(const Task& task, double now);
  void release(const Task& task, double now);
  void satisfy(int node, double now);
  void offer(Lane& lane, double now);

  const Steps& steps_;
  const Costs& costs_;
  size_t segment_bytes_;
  bool empty_ = true;  // all chunks are
  std::vector<size_t> chunk_begin_, chunk_end_;
  std::vector<Node> nodes_;
  std::vector<Lane> lanes_;
  std::vector<int> lane_index_;  // by from * ranks + to; -1
  struct Edge {
    int earlier, later;
  };
  std::vector<Edge> edges_;
  std::vector<int> waiting_;

  std::vector<Port> ports_, receiving_ports_;  // of each rank; the latter where they are others
  Queue<Event> events_;
  double end_ = 0;
};

}  // namespace trireme::comm

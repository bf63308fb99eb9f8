// Checks of all ranks together: each of their lists as a list of what a rank starts and waits for, held
// against its partners' and then played until all are through.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/program/verify.h"
#include "trireme/program/waits.h"

namespace trireme {
namespace {

using Phase = OpRecord::Collective::Phase;

// One thing that a rank says to others, or waits for.
struct Event {
  enum class Kind { kStart, kWait, kSend, kReceive, kWaitSent, kWaitReceived } kind;
  int axis = -1;      // of a collective
  size_t number = 0;  // which one along the axis, or to or from the peer
  int peer = -1;      // of a message
  std::string what;   // that must be the same on both sides
  std::string where;  // for people
};

std::string place(const Graph& graph, const Node& node) {
  return fmt::format("{} of %{} in '{}'", node.op->name, graph.values[node.outputs[0]].name, graph.name);
}

// What all partners of a collective must agree on. Parts may differ in size from rank to rank; sums, and what
// neighbours pass on, may not. Stages have updates of their own, so that one may go on with something else
// between the start and the wait of a collective that another one makes in one call: those two meet.
std::string agreement(const Graph& graph, const Node& node) {
  const CollectiveKind kind = node.op->collective->kind;
  const bool same_types = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kShift;
  std::string text(name(kind));
  text += fmt::format(" {} over {}", node.attrs.text("reduction", ""), node.attrs.integer("ways"));
  for (ValueId input : node.inputs) {
    const TensorType& type = graph.type(input);
    text += same_types ? " " + to_string(type) : fmt::format(" {}", name(type.dtype));
  }
  if (node.attrs.has("runs"))
    text += fmt::format(" in runs of {}", fmt::join(node.attrs.integers("runs"), ","));
  return text;
}

class Events {
 public:
  explicit Events(const Program& program) : program_(program), started_(program.mesh.axes().size()) {}

  // Of the steps of an asynchronous pipeline: of its filling and two of them.
  std::vector<Event> of(std::string_view name) {
    const auto list = std::ranges::find(program_.lists, name, &ActionList::name);
    if (list == program_.lists.end()) return {};
    const ActionList* fill = program_.find_list(When::fill());
    if (list->when == When::step() && fill) {
      add(*fill);
      add(*list);
    }
    add(*list);
    return std::move(events_);
  }

 private:
  void add(const ActionList& list) {
    message_events_.clear();
    const Waits waits = waits_of(program_, list);
    for (size_t i = 0; i < list.actions.size(); ++i) {
      const Action& action = list.actions[i];
      for (int message : waits.before[i]) wait_for(message);
      if (action.kind == Action::Kind::kRun)
        run(program_.segments[program_.segment(action.what)].graph);
      else if (action.is_message())
        message(action, static_cast<int>(i));
      else if (action.kind == Action::Kind::kReduce)
        begin_sum(action);  // which another list awaits: all that is begun here is through then
    }
    for (int message : waits.at_end) wait_for(message);
  }

  void run(const Graph& graph) {
    std::map<int, size_t> number;                     // of the collective that a node started
    std::map<int, std::pair<size_t, size_t>> shifts;  // of the messages that came and went
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (!node.op->collective) continue;
      if (node.op->collective->kind == CollectiveKind::kShift) {
        const bool waits = node.op->collective->phase == Phase::kWait;
        const int starter = waits ? graph.values[node.inputs[0]].node : static_cast<int>(n);
        if (!waits) shifts[starter] = start_shift(graph, node);
        if (node.op->collective->phase != Phase::kStart) wait_for_shift(graph, node, shifts.at(starter));
        continue;
      }
      const int axis = program_.mesh.axis(node.attrs.text("axis"));
      if (node.op->collective->sends()) {
        number[static_cast<int>(n)] = started_[axis]++;
        events_.push_back({Event::Kind::kStart, axis, number[static_cast<int>(n)], -1, agreement(graph, node),
                           place(graph, node)});
      }
      if (node.op->collective->phase == Phase::kStart) continue;
      const int starter = node.op->collective->phase == Phase::kWait ? graph.values[node.inputs[0]].node
                                                                     : static_cast<int>(n);
      events_.push_back({Event::Kind::kWait, axis, number.at(starter), -1, "", place(graph, node)});
    }
  }

  // A message from one neighbour and one to the other; returns their numbers.
  std::pair<size_t, size_t> start_shift(const Graph& graph, const Node& node) {
    const int to = static_cast<int>(node.attrs.integer("to")),
              from = static_cast<int>(node.attrs.integer("from"));
    const std::string what = agreement(graph, node), where = place(graph, node);
    const size_t received = messages_[{false, from}]++, sent = messages_[{true, to}]++;
    events_.push_back({Event::Kind::kReceive, -1, received, from, what, where});
    events_.push_back({Event::Kind::kSend, -1, sent, to, what, where});
    return {received, sent};
  }

  void wait_for_shift(const Graph& graph, const Node& node, const std::pair<size_t, size_t>& messages) {
    const int to = static_cast<int>(node.attrs.integer("to")),
              from = static_cast<int>(node.attrs.integer("from"));
    const std::string where = place(graph, node);
    events_.push_back({Event::Kind::kWaitReceived, -1, messages.first, from, "", where});
    events_.push_back({Event::Kind::kWaitSent, -1, messages.second, to, "", where});
  }

  void begin_sum(const Action& action) {
    const int axis = program_.mesh.axis(replica_axis(program_.mesh));
    const std::string type = to_string(program_.find_state(action.what)->type);
    events_.push_back({Event::Kind::kStart, axis, started_[axis]++, -1,
                       fmt::format("the sum of %{} {}", action.what, type), fmt::format("%{}", action.what)});
  }

  void wait_for(int message) {
    Event event = events_[message_events_.at(message)];
    event.kind = event.kind == Event::Kind::kSend ? Event::Kind::kWaitSent : Event::Kind::kWaitReceived;
    events_.push_back(std::move(event));
  }

  void message(const Action& action, int number) {
    const bool sends = action.kind == Action::Kind::kSend;
    const State& state = *program_.find_state(action.what);
    message_events_[number] = events_.size();
    events_.push_back({sends ? Event::Kind::kSend : Event::Kind::kReceive, -1,
                       messages_[{sends, action.peer}]++, action.peer,
                       fmt::format("%{} {}", action.what, to_string(state.type)),
                       fmt::format("%{}", action.what)});
  }

  const Program& program_;
  std::vector<size_t> started_;                      // per axis
  std::map<std::pair<bool, int>, size_t> messages_;  // by direction and peer
  std::map<int, size_t> message_events_;             // by the number of the action
  std::vector<Event> events_;
};

std::vector<const Event*> chosen(const std::vector<Event>& events, Event::Kind kind, int axis, int peer) {
  std::vector<const Event*> result;
  for (const Event& event : events) {
    if (event.kind == kind && event.axis == axis && event.peer == peer) result.push_back(&event);
  }
  return result;
}

// Two ranks' sides of the same collectives or messages, in order.
void expect_same(int a, const std::vector<const Event*>& left, int b, const std::vector<const Event*>& right,
                 const std::string& along) {
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const auto side = [&](const std::vector<const Event*>& events) {
      return i < events.size() ? fmt::format("{} ({})", events[i]->where, events[i]->what) : "nothing more";
    };
    if (i < left.size() && i < right.size() && left[i]->what == right[i]->what) continue;
    throw_error("{} {}: rank {} has {}, but rank {} has {}", along, i + 1, a, side(left), b, side(right));
  }
}

void match(std::span<const Program> ranks, const std::vector<std::vector<Event>>& events) {
  const Mesh& mesh = ranks[0].mesh;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    for (size_t a = 0; a < mesh.axes().size(); ++a) {
      const int axis = static_cast<int>(a), first = mesh.members(rank, axis).front();
      if (first != rank)
        expect_same(first, chosen(events[first], Event::Kind::kStart, axis, -1), rank,
                    chosen(events[rank], Event::Kind::kStart, axis, -1),
                    fmt::format("along the axis {}, collective", mesh.axes()[a].name));
    }
    for (int peer = 0; peer < mesh.ranks(); ++peer) {
      if (peer != rank)
        expect_same(rank, chosen(events[rank], Event::Kind::kSend, -1, peer), peer,
                    chosen(events[peer], Event::Kind::kReceive, -1, rank),
                    fmt::format("from rank {} to rank {}, message", rank, peer));
    }
  }
}

// Every rank goes on until it waits for what a partner has not started; when nobody can go on, they wait for
// ever.
void play(const Mesh& mesh, const std::vector<std::vector<Event>>& events) {
  std::vector<size_t> at(events.size());
  std::map<std::pair<int, int>, size_t> started;      // by rank and axis
  std::map<std::pair<int, int>, size_t> sent, asked;  // by sender and receiver
  const auto can_go_on = [&](int rank, const Event& event) {
    if (event.kind == Event::Kind::kWaitReceived) return sent[{event.peer, rank}] > event.number;
    // A transport may hold a message back until it is asked for.
    if (event.kind == Event::Kind::kWaitSent) return asked[{rank, event.peer}] > event.number;
    if (event.kind != Event::Kind::kWait) return true;
    return std::ranges::all_of(mesh.members(rank, event.axis), [&](int member) {
      return started[{member, event.axis}] > event.number;
    });
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < events.size(); ++r) {
      const int rank = static_cast<int>(r);
      for (; at[r] < events[r].size() && can_go_on(rank, events[r][at[r]]); ++at[r]) {
        const Event& event = events[r][at[r]];
        if (event.kind == Event::Kind::kStart) ++started[{rank, event.axis}];
        if (event.kind == Event::Kind::kSend) ++sent[{rank, event.peer}];
        if (event.kind == Event::Kind::kReceive) ++asked[{event.peer, rank}];
        moved = true;
      }
    }
  }
  for (size_t r = 0; r < events.size(); ++r) {
    if (at[r] < events[r].size())
      throw_error("rank {} waits for ever for {}: its partners wait for something else", r,
                  events[r][at[r]].where);
  }
}

void check_rows(std::span<const Program> ranks) {
  const ActionList* first = nullptr;  // of a rank that computes rows: a server does not
  for (const Program& program : ranks) {
    const ActionList* list = program.find_list(When::step());
    if (!first && list && list->rows > 0) first = list;
  }
  if (!first) return;
  std::vector<int> computed(static_cast<size_t>(first->rows * first->microbatches));
  for (const Program& program : ranks) {
    const ActionList& list = program.list(When::step());
    for (const Action& action : list.actions) {
      if (action.kind != Action::Kind::kRun) continue;
      if (!program.segments[program.segment(action.what)].takes(Role::kBatch)) continue;
      for (int64_t row = list.own.begin; row < list.own.end(); ++row)
        ++computed.at(static_cast<size_t>(action.microbatch % list.microbatches * list.rows + row));
    }
  }
  for (size_t row = 0; row < computed.size(); ++row) {
    if (computed[row] == 0 || computed[row] != computed[0])
      throw_error("row {} of a batch is computed {} times, row 0 {} times", row, computed[row], computed[0]);
  }
}

}  // namespace

void verify(std::span<const Program> ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    verify(ranks[r]);
    if (ranks[r].rank != static_cast<int>(r) || ranks[r].mesh != ranks[0].mesh ||
        static_cast<int>(ranks.size()) != ranks[0].mesh.ranks())
      throw_error(
          "program {} of {} is rank {} of the mesh '{}'; programs of all ranks of one mesh expected, in "
          "order",
          r, ranks.size(), ranks[r].rank, to_string(ranks[r].mesh));
  }
  for (const ActionList& list : ranks[0].lists) {
    std::vector<std::vector<Event>> events;
    for (const Program& program : ranks) events.push_back(Events(program).of(list.name));
    match(ranks, events);
    play(ranks[0].mesh, events);
  }
  check_rows(ranks);
}

}  // namespace trireme

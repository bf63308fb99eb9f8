// Takes and applies messages until nothing is left to do. A list of steps that may have become possible
// spares looking at all of them again and again.
#include "trireme/comm/collective/symbolic_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::comm {

SymbolicRun::SymbolicRun(const Steps& steps, const Owed& owed)
    : steps_(steps), expressions_(steps.ranks()), ranks_(steps.ranks()) {
  const int all_chunks = steps.chunks() + steps.scratch_chunks();
  for (int r = 0; r < steps.ranks(); ++r) {
    Rank& rank = ranks_[r];
    const int size = static_cast<int>(steps.of(r).size());
    rank.chunks.resize(all_chunks);
    rank.message.assign(size, -1);
    rank.done.assign(size, false);
    for (int chunk = 0; chunk < steps.chunks(); ++chunk) {
      if (owed.gives(r, chunk)) rank.chunks[chunk].holds = expressions_.contribution(r, chunk);
    }
    for (int s = 0; s < size; ++s) {
      const Step& step = steps.of(r)[s];
      const bool any = step.count == 1 || (steps.has_even_chunks() && steps.is_scratch(step.chunk));
      const int limit = any ? all_chunks : steps.chunks();
      if (step.count < 1 || step.chunk < 0 || step.chunk + step.count > limit) {
        throw_error("rank {}, step {}: chunks {} to {}, expected {} to {} (and no scratch among several)", r,
                    s, step.chunk, step.chunk + step.count - 1, 0, limit - 1);
      }
      if (step.kind == Step::Kind::local && steps.sized_as(step.chunk) != steps.sized_as(step.from)) {
        throw_error("rank {}, step {}: combines chunk {} into chunk {}, which is another part", r, s,
                    step.from, step.chunk);
      }
      each_chunk({r, s}, [&](int chunk) { rank.chunks[chunk].steps.push_back(s); });
    }
  }
  match();
}

template <typename Body>
void SymbolicRun::each_chunk(Place place, const Body& body) const {
  const Step& step = step_at(place);
  for (int i = 0; i < step.count; ++i) body(step.chunk + i);
  if (step.kind == Step::Kind::local) body(step.from);
}

std::string SymbolicRun::text(Place place) const {
  const Step& step = step_at(place);
  const std::string chunks = step.count == 1
                                 ? fmt::format("chunk {}", step.chunk)
                                 : fmt::format("chunks {}-{}", step.chunk, step.chunk + step.count - 1);
  switch (step.kind) {
    case Step::Kind::send:
      return fmt::format("rank {}, step {} (send {} to rank {})", place.rank, place.step, chunks, step.peer);
    case Step::Kind::receive:
      return fmt::format("rank {}, step {} (receive {} from rank {})", place.rank, place.step, chunks,
                         step.peer);
    case Step::Kind::local:
      break;
  }
  return fmt::format("rank {}, step {} (combine chunk {} into {})", place.rank, place.step, step.from,
                     chunks);
}

void SymbolicRun::match() {
  std::map<std::pair<int, int>, std::vector<Place>> sends, receives;  // by (from, to)
  for (int r = 0; r < steps_.ranks(); ++r) {
    for (int s = 0; s < static_cast<int>(steps_.of(r).size()); ++s) {
      const Step& step = step_at({r, s});
      if (step.kind == Step::Kind::local) continue;
      if (step.peer < 0 || step.peer >= steps_.ranks() || step.peer == r) {
        throw_error("{}: there is no such peer", text({r, s}));
      }
      if (step.kind == Step::Kind::send) sends[{r, step.peer}].push_back({r, s});
      if (step.kind == Step::Kind::receive) receives[{step.peer, r}].push_back({r, s});
    }
  }
  for (const auto& [pair, places] : receives) {
    const size_t sent = sends[pair].size();
    if (places.size() > sent) throw_error("{}: nobody sends it", text(places[sent]));
  }
  for (const auto& [pair, places] : sends) {
    const std::vector<Place>& takers = receives[pair];
    if (places.size() > takers.size()) throw_error("{}: nobody receives it", text(places[takers.size()]));
    for (size_t k = 0; k < places.size(); ++k) {
      const Step& send = step_at(places[k]);
      const Step& receive = step_at(takers[k]);
      const bool same_part = steps_.sized_as(send.chunk) == steps_.sized_as(receive.chunk);
      if (!same_part || send.count != receive.count) {
        throw_error("{} meets {}: not the same part of the vector", text(places[k]), text(takers[k]));
      }
      const int number = static_cast<int>(messages_.size());
      ranks_[places[k].rank].message[places[k].step] = number;
      ranks_[takers[k].rank].message[takers[k].step] = number;
      messages_.push_back(
          {.sender = places[k], .receiver = takers[k], .before = k == 0 ? -1 : number - 1, .holds = {}});
    }
  }
}

bool SymbolicRun::has_turn(Place place) const {
  bool all = true;
  each_chunk(place, [&](int number) {
    const Chunk& chunk = ranks_[place.rank].chunks[number];
    all &= chunk.steps[chunk.next] == place.step;
  });
  return all;
}

void SymbolicRun::try_step(Place place) {
  if (ranks_[place.rank].done[place.step] || !has_turn(place)) return;
  if (step_at(place).kind == Step::Kind::local) return combine_locally(place);
  Message& message = messages_[ranks_[place.rank].message[place.step]];
  if (step_at(place).kind == Step::Kind::receive) {
    if (message.taken) apply(message);
  } else if (message.before < 0 || messages_[message.before].applied) {
    take(message);
  }
}

void SymbolicRun::take(Message& message) {
  std::vector<Chunk>& chunks = ranks_[message.sender.rank].chunks;
  if (message.before >= 0) message.round = messages_[message.before].round;
  each_chunk(message.sender, [&](int number) {
    if (chunks[number].holds == Expressions::kUndefined) {
      throw_error("{}: chunk {} holds nothing yet", text(message.sender), number);
    }
    message.holds.push_back(chunks[number].holds);
    message.round = std::max(message.round, chunks[number].written_round + 1);
  });
  each_chunk(message.sender, [&](int number) {
    chunks[number].read_round = std::max(chunks[number].read_round, message.round);
  });
  message.taken = true;
  rounds_ = std::max(rounds_, message.round);
  finish(message.sender);
  ready_.push_back(message.receiver);
}

void SymbolicRun::apply(Message& message) {
  std::vector<Chunk>& chunks = ranks_[message.receiver.rank].chunks;
  const Step& step = step_at(message.receiver);
  for (int i = 0; i < step.count; ++i) {
    Chunk& chunk = chunks[step.chunk + i];
    chunk.holds = combined(message.receiver, step.chunk + i, step.action, message.holds[i]);
    chunk.written_round = std::max({message.round, chunk.written_round, chunk.read_round});
  }
  message.applied = true;
  finish(message.receiver);
  const int next = static_cast<int>(&message - messages_.data()) + 1;
  if (next < static_cast<int>(messages_.size()) && messages_[next].before == next - 1) {
    ready_.push_back(messages_[next].sender);
  }
}

void SymbolicRun::combine_locally(Place place) {
  const Step& step = step_at(place);
  Chunk& into = ranks_[place.rank].chunks[step.chunk];
  Chunk& from = ranks_[place.rank].chunks[step.from];
  if (from.holds == Expressions::kUndefined) {
    throw_error("{}: chunk {} holds nothing yet", text(place), step.from);
  }
  into.holds = combined(place, step.chunk, step.action, from.holds);
  into.written_round = std::max({into.written_round, into.read_round, from.written_round});
  from.read_round = std::max(from.read_round, into.written_round);
  finish(place);
}

int SymbolicRun::combined(Place place, int chunk, Action action, int from) {
  if (action == Action::copy) return from;
  const int holds = held(place.rank, chunk);
  if (holds == Expressions::kUndefined) throw_error("{}: chunk {} holds nothing yet", text(place), chunk);
  if (expressions_.chunk(holds) != expressions_.chunk(from)) {
    throw_error("{}: adds what belongs to chunk {} to what belongs to chunk {}", text(place),
                expressions_.chunk(from), expressions_.chunk(holds));
  }
  return expressions_.sum(holds, from);
}

void SymbolicRun::finish(Place place) {
  Rank& rank = ranks_[place.rank];
  rank.done[place.step] = true;
  each_chunk(place, [&](int number) {
    Chunk& chunk = rank.chunks[number];
    if (++chunk.next < chunk.steps.size()) ready_.push_back({place.rank, chunk.steps[chunk.next]});
  });
}

SymbolicRun::Place SymbolicRun::blocker(Place place) const {
  const Rank& rank = ranks_[place.rank];
  const bool receives = step_at(place).kind == Step::Kind::receive;
  if (receives && !messages_[rank.message[place.step]].taken)
    return messages_[rank.message[place.step]].sender;
  Place found = place;
  each_chunk(place, [&](int number) {
    const Chunk& chunk = rank.chunks[number];
    if (chunk.steps[chunk.next] != place.step) found = {place.rank, chunk.steps[chunk.next]};
  });
  if (found.step != place.step) return found;
  return messages_[messages_[rank.message[place.step]].before].receiver;
}

void SymbolicRun::report_circle(Place stuck) const {
  std::map<std::pair<int, int>, bool> seen;
  while (!seen[{stuck.rank, stuck.step}]) {
    seen[{stuck.rank, stuck.step}] = true;
    stuck = blocker(stuck);
  }
  std::string circle = text(stuck);
  for (Place place = blocker(stuck); place.rank != stuck.rank || place.step != stuck.step;
       place = blocker(place)) {
    circle += " waits for " + text(place);
  }
  throw_error("these wait for each other for ever: {} waits for the first", circle);
}

void SymbolicRun::run() {
  for (int r = 0; r < steps_.ranks(); ++r) {
    for (int s = 0; s < static_cast<int>(steps_.of(r).size()); ++s) ready_.push_back({r, s});
  }
  while (!ready_.empty()) {
    const Place place = ready_.back();
    ready_.pop_back();
    try_step(place);
  }
  for (int r = 0; r < steps_.ranks(); ++r) {
    for (int s = 0; s < static_cast<int>(steps_.of(r).size()); ++s) {
      if (!ranks_[r].done[s]) report_circle({r, s});
    }
  }
}

}  // namespace trireme::comm

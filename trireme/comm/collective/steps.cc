// Builds the lists. One send() writes both ends, so a send without its receive cannot be written down; and
// as every message is delivered before the next is written, the order of the calls is one in which nobody
// waits in a circle. What can still be wrong is what the chunks hold: the checker's work.
#include "trireme/comm/collective/steps.h"

#include <utility>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

int modulo(int value, int size) {
  const int rest = value % size;
  return rest < 0 ? rest + size : rest;
}

}  // namespace

Steps::Steps(int ranks, int chunks) : chunks_(chunks), lists_(ranks), round_receives_(ranks) {
  TRIREME_CHECK(ranks >= 1);
  TRIREME_CHECK(chunks >= 1);
}

Steps Steps::from_lists(int chunks, std::vector<std::vector<Step>> lists) {
  Steps steps(static_cast<int>(lists.size()), chunks);
  steps.lists_ = std::move(lists);
  return steps;
}

int Steps::scratch(int like) {
  TRIREME_CHECK(like < chunks_);
  scratch_like_.push_back(like);
  return chunks_ + scratch_chunks() - 1;
}

void Steps::send(int from, int to, int chunk, Action action) {
  const int number = modulo(chunk, chunks_);
  message(modulo(from, ranks()), modulo(to, ranks()), number, number, 1, action);
}

void Steps::send(int from, int to, Chunks chunks, Action action) {
  if (chunks.count == 0) return;
  TRIREME_CHECK(chunks.first >= 0);
  TRIREME_CHECK(chunks.count > 0);
  TRIREME_CHECK(chunks.first + chunks.count <= chunks_);
  message(from, to, chunks.first, chunks.first, chunks.count, action);
}

void Steps::send(int from, int to, int chunk, int into_chunk, Action action) {
  message(from, to, chunk, into_chunk, 1, action);
}

void Steps::send(int from, int to, Chunks chunks, int into_first, Action action) {
  message(from, to, chunks.first, into_first, chunks.count, action);
}

void Steps::local(int rank, int into, int from, Action action) {
  TRIREME_CHECK(!in_round_);
  TRIREME_CHECK(into != from);
  lists_[rank].push_back({Step::Kind::local, action, rank, into, from});
}

void Steps::message(int from, int to, int chunk, int into_chunk, int count, Action action) {
  TRIREME_CHECK(from != to);
  std::vector<Step>& receiver = in_round_ ? round_receives_[to] : lists_[to];
  lists_[from].push_back({Step::Kind::send, Action::copy, to, chunk, 0, count});
  receiver.push_back({Step::Kind::receive, action, from, into_chunk, 0, count});
}

void Steps::begin_round() {
  TRIREME_CHECK(!in_round_);
  in_round_ = true;
}

void Steps::end_round() {
  in_round_ = false;
  for (int rank = 0; rank < ranks(); ++rank) {
    std::vector<Step>& receives = round_receives_[rank];
    lists_[rank].insert(lists_[rank].end(), receives.begin(), receives.end());
    receives.clear();
  }
}

}  // namespace trireme::comm

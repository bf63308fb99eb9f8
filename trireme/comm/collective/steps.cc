// Builds the lists. One send() writes both ends, so a send without its receive cannot be written down.
#include "trireme/comm/collective/steps.h"

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

int modulo(int value, int size) {
  const int rest = value % size;
  return rest < 0 ? rest + size : rest;
}

}  // namespace

Steps::Steps(int ranks, int chunks) : chunks_(chunks), lists_(ranks) {
  TRIREME_CHECK(ranks >= 1);
  TRIREME_CHECK(chunks >= 1);
}

int Steps::scratch(int like) {
  TRIREME_CHECK(like < chunks_);
  scratch_like_.push_back(like);
  return chunks_ + scratch_chunks() - 1;
}

void Steps::send(int from, int to, int chunk, Action action) {
  const int number = modulo(chunk, chunks_);
  send(modulo(from, ranks()), modulo(to, ranks()), number, number, action);
}

void Steps::send(int from, int to, int chunk, int into_chunk, Action action) {
  TRIREME_CHECK(from != to);
  lists_[from].push_back({Step::Kind::send, Action::copy, to, chunk, 0});
  lists_[to].push_back({Step::Kind::receive, action, from, into_chunk, 0});
}

void Steps::local(int rank, int into, int from, Action action) {
  TRIREME_CHECK(into != from);
  lists_[rank].push_back({Step::Kind::local, action, rank, into, from});
}

}  // namespace trireme::comm

// Runs the Steps once and compares what each rank holds with what the collective owes it.
#include "trireme/comm/collective/check.h"

#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/comm/collective/owed.h"
#include "trireme/comm/collective/symbolic_run.h"

namespace trireme::comm {
namespace {

void check_result(const SymbolicRun& run, const Owed& owed, Collective collective, int rank, int chunk,
                  int ranks) {
  const int held = run.held(rank, chunk);
  if (held == Expressions::kUndefined) {
    throw_error("rank {} ends with nothing in chunk {}, which {} owes it", rank, chunk, name(collective));
  }
  if (run.expressions().chunk(held) != chunk) {
    throw_error("rank {} ends with what belongs to chunk {} in chunk {}", rank, run.expressions().chunk(held),
                chunk);
  }
  for (int giver = 0; giver < ranks; ++giver) {
    const int times = run.expressions().times(held)[giver];
    const int expected = owed.gives(giver, chunk) ? 1 : 0;
    const bool heard_enough = collective == Collective::barrier && times >= expected;
    if (times != expected && !heard_enough) {
      throw_error("rank {} ends with the contribution of rank {} to chunk {} {} times, expected {}", rank,
                  giver, chunk, times, expected);
    }
  }
}

// The same steps on pieces of chunks, one piece after another.
Steps cut(const Steps& steps, int pieces) {
  std::vector<std::vector<Step>> lists(steps.ranks());
  for (int rank = 0; rank < steps.ranks(); ++rank) {
    for (Step step : steps.of(rank)) {
      const int first = step.chunk * pieces;
      const int first_from = step.from * pieces;
      const int count = step.count * pieces;
      step.count = 1;
      for (int i = 0; i < count; ++i) {
        step.chunk = first + i;
        step.from = first_from + i;
        lists[rank].push_back(step);
      }
    }
  }
  Steps result = Steps::from_lists(steps.chunks() * pieces, std::move(lists));
  for (int chunk = steps.chunks(); chunk < steps.chunks() + steps.scratch_chunks(); ++chunk) {
    for (int i = 0; i < pieces; ++i) result.scratch(steps.sized_as(chunk) * pieces + i);
  }
  if (steps.has_even_chunks()) result.expect_even_chunks();
  return result;
}

}  // namespace

Proof check_steps(const Steps& whole, Collective collective, int root, int pieces) {
  const Owed owed(collective, whole.ranks(), root, pieces);
  if (owed.chunks() != 0 && owed.chunks() != whole.chunks()) {
    throw_error("{} of {} ranks in {} chunks, expected {}", name(collective), whole.ranks(), whole.chunks(),
                owed.chunks());
  }
  const Steps steps = pieces == 1 ? whole : cut(whole, pieces);
  SymbolicRun run(steps, owed);
  run.run();
  for (int chunk = 0; chunk < steps.chunks(); ++chunk) {
    int first = -1;  // the first rank that gets it
    for (int rank = 0; rank < steps.ranks(); ++rank) {
      if (!owed.gets(rank, chunk)) continue;
      check_result(run, owed, collective, rank, chunk, steps.ranks());
      if (first < 0) first = rank;
      if (collective != Collective::barrier && run.held(rank, chunk) != run.held(first, chunk)) {
        throw_error("ranks {} and {} add up chunk {} in different orders, so their bits may differ", first,
                    rank, chunk);
      }
    }
  }

  Proof proof{.rounds = run.rounds(), .messages_sent = std::vector<int>(steps.ranks())};
  for (int rank = 0; rank < steps.ranks(); ++rank) {
    for (const Step& step : steps.of(rank)) proof.messages_sent[rank] += step.kind == Step::Kind::send;
  }
  return proof;
}

std::vector<size_t> bytes_sent(const Steps& steps, std::span<const size_t> chunk_bytes) {
  TRIREME_CHECK(static_cast<int>(chunk_bytes.size()) == steps.chunks());
  std::vector<size_t> bytes(steps.ranks());
  for (int rank = 0; rank < steps.ranks(); ++rank) {
    for (const Step& step : steps.of(rank)) {
      if (step.kind != Step::Kind::send) continue;
      for (int i = 0; i < step.count; ++i) bytes[rank] += chunk_bytes[steps.sized_as(step.chunk + i)];
    }
  }
  return bytes;
}

}  // namespace trireme::comm

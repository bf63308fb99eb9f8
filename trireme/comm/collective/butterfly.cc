// Butterfly: in round k everybody talks to the partner at distance 2^k. Fewest rounds.

#include "trireme/comm/collective/algorithm_functions.h"
#include "trireme/comm/collective/fold.h"

namespace trireme::comm {

// Recursive doubling of whole vectors. Both partners compute a + b of the same a and b, one as a + b and one
// as b + a, which are the same bits. log₂P rounds, each rank sends n bytes in each; other than powers of two
// fold: ⌊log₂P⌋ + 2 rounds, (⌊log₂P⌋ + 1) n bytes.
Steps butterfly_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/1);
  const Fold fold(ranks);
  fold_in(steps, fold);
  for (int distance = 1; distance < fold.members(); distance *= 2) {
    steps.round([&] {
      for (int member = 0; member < fold.members(); ++member) {
        steps.send(fold.first_rank(member), fold.first_rank(member ^ distance), 0, Action::add);
      }
    });
  }
  fold_out(steps, fold);
  return steps;
}

// Recursive halving. log₂P rounds; each rank sends (P-1)/P n bytes. Folded: two rounds more, and an extra
// rank sends its whole vector first and gets its part last.
Steps butterfly_reduce_scatter(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks);
  const Fold fold(ranks);
  fold_in(steps, fold);
  halve(steps, fold, [&](int member) { return fold.first_rank(member); });
  for (int i = 0; i < fold.extra(); ++i) steps.send(2 * i, 2 * i + 1, 2 * i + 1, Action::copy);
  return steps;
}

// Recursive doubling of what a rank holds: the same backwards. log₂P rounds; each rank sends (P-1)/P n bytes.
// Folded: two rounds more, and the neighbour of an extra rank sends it all but its own part.
Steps butterfly_all_gather(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks);
  const Fold fold(ranks);
  for (int i = 0; i < fold.extra(); ++i) steps.send(2 * i + 1, 2 * i, 2 * i + 1, Action::copy);
  double_up(steps, fold, [&](int member) { return fold.first_rank(member); });
  for (int i = 0; i < fold.extra(); ++i) {
    const int own = 2 * i + 1;
    steps.send(2 * i, own, Chunks{0, own}, Action::copy);
    steps.send(2 * i, own, Chunks{own + 1, ranks - own - 1}, Action::copy);
  }
  return steps;
}

// Dissemination: in round k rank r tells r + 2^k all that it has heard. ⌈log₂P⌉ rounds for every P, because
// hearing of a rank twice does no harm here.
Steps butterfly_barrier(int ranks) {
  Steps steps(ranks, /*chunks=*/1);
  for (int distance = 1; distance < ranks; distance *= 2) {
    steps.each([&](int r) { steps.send(r, r + distance, 0, Action::add); });
  }
  return steps;
}

// Rabenseifner's: reduce-scatter by recursive halving, all-gather by recursive doubling. Few rounds and few
// bytes. 2 log₂P rounds; each rank sends 2 (P-1)/P n bytes. Other than powers of two fold: 2⌊log₂P⌋ + 2
// rounds, n bytes more.
Steps reduce_scatter_gather_all_reduce(int ranks) {
  const Fold fold(ranks);
  Steps steps(ranks, /*chunks=*/fold.members());
  const auto own_chunk = [](int member) { return member; };
  fold_in(steps, fold);
  halve(steps, fold, own_chunk);
  double_up(steps, fold, own_chunk);
  fold_out(steps, fold);
  return steps;
}

}  // namespace trireme::comm

// Rabenseifner's: reduce-scatter by recursive halving, all-gather by recursive doubling. Few rounds and few
// bytes. 2 log₂P rounds; each rank sends 2 (P-1)/P n bytes. Other than powers of two fold: 2⌊log₂P⌋ + 2
// rounds, n bytes more.
#include "trireme/comm/collective/algorithm_functions.h"
#include "trireme/comm/collective/fold.h"

namespace trireme::comm {

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

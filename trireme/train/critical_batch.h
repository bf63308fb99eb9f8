// The gradient noise scale: the batch below which a step is mostly noise and above which more samples hardly
// help (McCandlish et al., An Empirical Model of Large-Batch Training: B_simple = tr Σ / |G|²).
//
// A step computes its gradient in pieces (microbatches, on ranks): piece i leaves the sum gᵢ over its cᵢ
// targets. With A = Σ|gᵢ|², Q = Σcᵢ², N = |Σgᵢ|² and C = Σcᵢ, where G is the true gradient of one target and
// Σ its covariance,
//
//   E[A] = Q |G|² + C tr Σ        E[N] = C² |G|² + C tr Σ
//
// which gives both unknowns, also from uneven pieces. A and Q are two numbers that are added up over the
// ranks with loss and count; N is the norm that clipping needs anyway.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace trireme {

struct GradientSquares {
  double pieces = 0;        // A, for a loss that is not scaled
  double count_pieces = 0;  // Q
  double whole = 0;         // N
  double count = 0;         // C
};

class CriticalBatch {
 public:
  // Steps whose gradient is in one piece, or not finite, say nothing and are skipped.
  void add(const GradientSquares& squares);

  // In targets, from averages of both unknowns over some 100 steps, because their ratio in a single step is
  // wild; nothing as long as the average says that |G|² is not above zero.
  std::optional<double> targets() const;

 private:
  double signal_ = 0, noise_ = 0;  // averages of |G|² and tr Σ, up to a common factor
};

// The same from whole runs: the steps that batches B took to the same loss, each with the best rate for it,
// follow S = S_min (1 + B_c/B), and the samples E = B S = E_min (1 + B/B_c), with E_min = B_c S_min.
struct BatchSteps {
  double batch = 0, steps = 0;
};
struct CriticalBatchFit {
  double least_steps = 0, critical_batch = 0;  // S_min, B_c
  double error = 0;                            // root mean square of the steps' differences, as shares

  double least_samples() const { return least_steps * critical_batch; }
  double steps(double batch) const { return least_steps * (1 + critical_batch / batch); }
};
// By least squares of shares. Nothing where fewer than two different batches are given, or where steps do not
// fall as the batch grows and rise above S_min.
std::optional<CriticalBatchFit> fit_critical_batch(std::span<const BatchSteps> points);

}  // namespace trireme

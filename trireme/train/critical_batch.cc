// Two equations, two running averages.
#include "trireme/train/critical_batch.h"

#include <cmath>

namespace trireme {

void CriticalBatch::add(const GradientSquares& s) {
  const double spread = s.count * s.count - s.count_pieces;
  if (!(spread > 0)) return;
  const double signal = (s.whole - s.pieces) / spread;
  const double noise = (s.pieces - s.count_pieces * signal) / s.count;
  if (!std::isfinite(signal) || !std::isfinite(noise)) return;
  // Both start at zero, and what that is wrong by cancels in the ratio.
  constexpr double kKept = 0.99;
  signal_ = kKept * signal_ + (1 - kKept) * signal;
  noise_ = kKept * noise_ + (1 - kKept) * noise;
}

std::optional<double> CriticalBatch::targets() const {
  if (!(signal_ > 0)) return std::nullopt;
  return noise_ / signal_;
}

}  // namespace trireme

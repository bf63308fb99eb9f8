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

// S = a + b/B is linear in a = S_min and b = E_min. Divided by the measured steps, so that a run of ten steps
// counts for as much as one of a thousand: 1 = a/S + b/(B S).
std::optional<CriticalBatchFit> fit_critical_batch(std::span<const BatchSteps> points) {
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  for (const BatchSteps& point : points) {
    if (!(point.batch > 0) || !(point.steps > 0)) return std::nullopt;
    const double x = 1 / point.steps, y = 1 / (point.batch * point.steps);
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x1 += x;
    y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  if (!(determinant > 1e-12 * xx * yy)) return std::nullopt;  // one batch alone
  const double least_steps = (x1 * yy - y1 * xy) / determinant, samples = (y1 * xx - x1 * xy) / determinant;
  if (!(least_steps > 0) || !(samples > 0)) return std::nullopt;
  CriticalBatchFit fit{least_steps, samples / least_steps};
  double squares = 0;
  for (const BatchSteps& point : points) {
    const double off = fit.steps(point.batch) / point.steps - 1;
    squares += off * off;
  }
  fit.error = std::sqrt(squares / static_cast<double>(points.size()));
  return fit;
}

}  // namespace trireme

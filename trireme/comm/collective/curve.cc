// Interpolation; see curve.h.
#include "trireme/comm/collective/curve.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::comm {

Curve::Curve(std::vector<CurvePoint> points) : points_(std::move(points)) {
  TRIREME_CHECK(!points_.empty());
  for (size_t i = 1; i < points_.size(); ++i) TRIREME_CHECK(points_[i - 1].bytes < points_[i].bytes);
}

Curve Curve::line(double alpha_seconds, double beta_seconds_per_byte) {
  constexpr size_t kFar = size_t{1} << 20;
  return Curve({{0, alpha_seconds}, {kFar, alpha_seconds + kFar * beta_seconds_per_byte}});
}

double Curve::seconds(size_t bytes) const {
  if (points_.empty()) return 0;
  if (bytes <= points_.front().bytes || points_.size() == 1) return points_.front().seconds;
  const auto above =
      std::upper_bound(points_.begin(), points_.end() - 1, bytes,
                       [](size_t value, const CurvePoint& point) { return value < point.bytes; });
  const CurvePoint& right = *above;
  const CurvePoint& left = *(above - 1);
  const double slope = (right.seconds - left.seconds) / static_cast<double>(right.bytes - left.bytes);
  return left.seconds + slope * static_cast<double>(bytes - left.bytes);
}

}  // namespace trireme::comm

// Seconds against bytes, as measured at some sizes: straight lines between them, level below the first, and
// on along the last line above the last.
#pragma once

#include <cstddef>
#include <vector>

namespace trireme::comm {

struct CurvePoint {
  size_t bytes = 0;
  double seconds = 0;

  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

class Curve {
 public:
  Curve() = default;
  // At least one point, bytes ascending.
  explicit Curve(std::vector<CurvePoint> points);
  // alpha + bytes * beta.
  static Curve line(double alpha_seconds, double beta_seconds_per_byte);

  bool empty() const { return points_.empty(); }
  const std::vector<CurvePoint>& points() const { return points_; }
  double seconds(size_t bytes) const;  // 0 when empty

  friend bool operator==(const Curve&, const Curve&) = default;

 private:
  std::vector<CurvePoint> points_;
};

}  // namespace trireme::comm

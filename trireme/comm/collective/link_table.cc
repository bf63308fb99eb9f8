// Looking things up in tables, and fitting a link to one; the file is in link_table_json.cc.
#include "trireme/comm/collective/link_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "trireme/comm/collective/formula.h"

namespace trireme::comm {

std::string_view name(MemoryKind kind) {
  return kind == MemoryKind::transport ? "transport" : "ordinary";
}

const Curve* timed_curve(const LinkTable& table, Collective collective, Algorithm algorithm) {
  const auto operations = table.timed.find(collective);
  if (operations == table.timed.end()) return nullptr;
  const auto curve = operations->second.find(algorithm);
  return curve == operations->second.end() ? nullptr : &curve->second;
}

double seconds_at(const Curve& curve, size_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes <= curve.front().bytes) return curve.front().seconds;
  const TimedPoint& last = curve.back();
  if (bytes >= last.bytes) return last.seconds * size / static_cast<double>(std::max<size_t>(last.bytes, 1));
  const auto right = std::ranges::upper_bound(curve, bytes, {}, &TimedPoint::bytes);
  const auto left = right - 1;
  const auto from = static_cast<double>(left->bytes), to = static_cast<double>(right->bytes);
  return std::lerp(left->seconds, right->seconds, (size - from) / (to - from));
}

// Least squares of (predicted / timed − 1), one coefficient after the other: that keeps them from becoming
// negative, and needs no solver for three numbers.
Link fit_link(const LinkTable& table, std::span<const int> hosts) {
  constexpr int kSweeps = 2000;
  std::vector<std::array<double, 3>> rows;  // what α, β and γ contribute, as shares of the timed seconds
  for (const auto& [collective, operations] : table.timed) {
    for (const auto& [algorithm, curve] : operations) {
      if (algorithm == Algorithm::native) continue;
      const Formula cost = formula(collective, algorithm, table.ranks, hosts);
      for (const TimedPoint& point : curve) {
        if (point.seconds <= 0) continue;
        const auto bytes = static_cast<double>(point.bytes);
        rows.push_back({cost.messages / point.seconds, cost.carried * bytes / point.seconds,
                        cost.reduced * bytes / point.seconds});
      }
    }
  }
  std::array<double, 3> fitted{};
  std::vector<double> missing(rows.size(), 1.0);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t k = 0; k < fitted.size(); ++k) {
      double along = 0, square = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        along += rows[i][k] * missing[i];
        square += rows[i][k] * rows[i][k];
      }
      if (square == 0) continue;
      const double better = std::max(0.0, fitted[k] + along / square);
      for (size_t i = 0; i < rows.size(); ++i) missing[i] -= rows[i][k] * (better - fitted[k]);
      fitted[k] = better;
    }
  }
  return {fitted[0], fitted[1], fitted[2]};
}

const LinkTable* find_link_table(std::span<const LinkTable> tables, std::string_view transport, int ranks,
                                 MemoryKind memory) {
  const LinkTable* found = nullptr;
  for (const LinkTable& table : tables) {
    if (table.transport != transport || table.memory != memory) continue;
    if (found == nullptr || std::abs(table.ranks - ranks) < std::abs(found->ranks - ranks)) found = &table;
  }
  return found;
}

}  // namespace trireme::comm

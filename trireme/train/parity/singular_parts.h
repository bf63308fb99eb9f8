// Singular parts of a small matrix and a draw of them, in double precision, by another way than the kernel's:
// the eigenvectors of the products of the shorter side's vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace trireme::parity {

struct SingularPart {
  std::vector<double> left, right;  // their product, divided by how likely it was drawn
};

inline std::vector<SingularPart> drawn_parts(const std::vector<double>& x, int64_t rows, int64_t columns,
                                             int64_t wanted, double number) {
  const bool along_rows = rows <= columns;
  const int64_t count = std::min(rows, columns), n = std::max(rows, columns);
  const auto at = [&](int64_t vector, int64_t i) {
    return along_rows ? x[vector * columns + i] : x[i * columns + vector];
  };
  // Jacobi's method on the symmetric matrix of products.
  std::vector<double> products(count * count, 0), turns(count * count, 0);
  for (int64_t i = 0; i < count; ++i) {
    turns[i * count + i] = 1;
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t k = 0; k < n; ++k) products[i * count + j] += at(i, k) * at(j, k);
    }
  }
  for (int sweep = 0; sweep < 100; ++sweep) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = i + 1; j < count; ++j) {
        const double off = products[i * count + j];
        if (off == 0) continue;
        const double angle = 0.5 * std::atan2(2 * off, products[i * count + i] - products[j * count + j]);
        const double c = std::cos(angle), s = std::sin(angle);
        const auto turn = [&](double& a, double& b) {
          const double before = a;
          a = c * before + s * b;
          b = c * b - s * before;
        };
        for (int64_t k = 0; k < count; ++k) turn(products[i * count + k], products[j * count + k]);
        for (int64_t k = 0; k < count; ++k) turn(products[k * count + i], products[k * count + j]);
        for (int64_t k = 0; k < count; ++k) turn(turns[i * count + k], turns[j * count + k]);
      }
    }
  }
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::vector<double> lengths(count);
  for (int64_t i = 0; i < count; ++i) lengths[i] = std::sqrt(std::max(0.0, products[i * count + i]));
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  // A part whose share would be above 1 has chance 1 and leaves the rest to the others.
  std::vector<double> chances(count, 0);
  double rest = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  int64_t to_share = wanted;
  for (const int64_t part : order) {
    const bool certain = to_share > 0 && static_cast<double>(to_share) * lengths[part] >= rest;
    if (!certain) break;
    chances[part] = 1;
    rest -= lengths[part];
    --to_share;
  }
  for (const int64_t part : order) {
    if (chances[part] == 0 && rest > 0) chances[part] = static_cast<double>(to_share) * lengths[part] / rest;
  }
  std::vector<SingularPart> parts;
  double sum = 0;
  for (int64_t i = 0; i < count && std::ssize(parts) < wanted; ++i) {
    const int64_t part = order[i];
    sum += chances[part];
    const bool last = count - i <= wanted - std::ssize(parts);
    if (sum <= number + static_cast<double>(parts.size()) && !last) continue;
    std::vector<double> turn(turns.begin() + part * count, turns.begin() + (part + 1) * count), vector(n, 0);
    const double largest = *std::ranges::max_element(turn, {}, [](double value) { return std::abs(value); });
    for (double& value : turn) value *= largest < 0 ? -1 : 1;
    for (int64_t k = 0; k < n && chances[part] > 0; ++k) {
      for (int64_t j = 0; j < count; ++j) vector[k] += turn[j] * at(j, k) / chances[part];
    }
    parts.push_back(along_rows ? SingularPart{turn, vector} : SingularPart{vector, turn});
  }
  return parts;
}

}  // namespace trireme::parity

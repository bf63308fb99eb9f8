// What methods have in common that send a matrix as `rank` columns and as many rows.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "trireme/exchange/method.h"

namespace trireme::low_rank {

inline int64_t rows(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape[0];
}
inline int64_t columns(const Shape& shape) {
  return rows(shape) == 0 ? 0 : shape.elements() / rows(shape);
}

// Of the columns and rows together.
inline double bytes(const Shape& shape, const ExchangeSettings& settings) {
  return 4.0 * settings.real("rank") * static_cast<double>(rows(shape) + columns(shape));
}

inline std::string problem(const Shape& shape, const ExchangeSettings& settings) {
  const int64_t rank = settings.whole("rank"), most = std::min(rows(shape), columns(shape));
  return rank <= most ? ""
                      : fmt::format("rank {} is larger than that of a matrix {}x{}", rank, rows(shape),
                                    columns(shape));
}

inline bool pays(const Shape& shape, const ExchangeSettings& settings) {
  return 2 * settings.whole("rank") * (rows(shape) + columns(shape)) < shape.elements();
}

}  // namespace trireme::low_rank

// Exact numbers in every format; see numbers.h.
#include "tests/multirank/numbers.h"

#include <algorithm>
#include <cstring>

#include "tests/multirank/conformance.h"
#include "trireme/base/with_type.h"

namespace trireme::comm {
namespace {

constexpr std::byte kGuardByte{0xa5};

template <typename T>
T round_to(double value) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, Bf16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

double given(ReduceOp op, int rank, int64_t i) {
  if (op == ReduceOp::product) return (i + rank) % 5 == 0 ? 2 : 1;  // at most 2^4 over 16 ranks
  return static_cast<double>((i * 7 + rank * 11 + 3) % 13);         // at most 192 in sum
}

double reduced(ReduceOp op, int ranks, int64_t i) {
  double result = given(op, 0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = given(op, rank, i);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        result += value;
        break;
      case ReduceOp::max:
        result = std::max(result, value);
        break;
      case ReduceOp::min:
        result = std::min(result, value);
        break;
      case ReduceOp::product:
        result *= value;
        break;
    }
  }
  return result;
}

Numbers::Numbers(DType dtype, int64_t count)
    : dtype_(dtype),
      count_(count),
      bytes_(2 * kGuard + static_cast<size_t>(count) * size_of(dtype), kGuardByte) {}

void Numbers::set(int64_t i, double value) {
  with_type(dtype_, [&](auto zero) {
    using T = decltype(zero);
    const T rounded = round_to<T>(value);
    std::memcpy(bytes_.data() + kGuard + static_cast<size_t>(i) * sizeof(T), &rounded, sizeof(T));
  });
}

void Numbers::expect(int64_t i, double value, const std::string& what) const {
  with_type(dtype_, [&](auto zero) {
    using T = decltype(zero);
    const T rounded = round_to<T>(value);
    T found;
    std::memcpy(&found, bytes_.data() + kGuard + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    if (std::memcmp(&found, &rounded, sizeof(T)) == 0) return;
    double shown;
    if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, Bf16>) {
      shown = static_cast<float>(found);
    } else {
      shown = static_cast<double>(found);
    }
    throw_error("{}: element {} is {}, expected {}", what, i, shown, value);
  });
}

void Numbers::expect_guards(const std::string& what) const {
  const auto touched = [](std::byte each) { return each != kGuardByte; };
  if (std::any_of(bytes_.begin(), bytes_.begin() + kGuard, touched)) throw_error("{}: wrote before it", what);
  if (std::any_of(bytes_.end() - kGuard, bytes_.end(), touched)) throw_error("{}: wrote behind it", what);
}

}  // namespace trireme::comm

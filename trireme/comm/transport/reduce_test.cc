// Every format and op, on every instruction set this machine has, against plain scalar definitions: any bits,
// any length, any alignment.
#include "trireme/comm/transport/reduce.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/with_type.h"

namespace trireme::comm {
namespace {

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                             DType::i64, DType::i32, DType::u8};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::product};

template <typename T>
constexpr bool kNarrow = std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;
template <typename T>
using Wide = std::conditional_t<kNarrow<T>, float, T>;

template <typename W>
W apply(ReduceOp op, W a, W b) {
  if constexpr (std::is_integral_v<W>) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    if (op == ReduceOp::sum) return static_cast<W>(x + y);
    if (op == ReduceOp::product) return static_cast<W>(x * y);
  } else {
    if (op == ReduceOp::sum) return a + b;
    if (op == ReduceOp::product) return a * b;
  }
  if (op == ReduceOp::max) return a > b || a != a ? a : b;
  return a < b || a != a ? a : b;
}

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return std::isnan(static_cast<Wide<T>>(value));
  }
}

// Random bits, with zeros, infinities, NaNs and denormals more often than chance gives them.
template <typename T>
std::vector<T> random_bits(size_t count, std::mt19937_64& random) {
  std::vector<T> values(count);
  for (T& value : values) {
    uint64_t bits = random();
    if constexpr (!std::is_integral_v<T>) {
      const int digits = std::is_same_v<T, double>  ? 52
                         : std::is_same_v<T, float> ? 23
                         : std::is_same_v<T, F16>   ? 10
                                                    : 7;
      const uint64_t exponent = ((uint64_t{1} << (sizeof(T) * 8 - 1 - digits)) - 1) << digits;
      switch (random() % 6) {
        case 0:
          bits &= ~exponent;  // denormal
          break;
        case 1:
          bits |= exponent;  // NaN
          break;
        case 2:
          bits =
              (bits & ~(exponent | ((uint64_t{1} << digits) - 1))) | (random() % 2 ? exponent : 0);  // 0, inf
          break;
        default:
          break;
      }
    }
    std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  }
  return values;
}

template <typename T>
void expect_same(T found, T wanted, T a, T b, ReduceOp op, size_t i) {
  // Which NaN comes of two is the compiler's choice in scalar code, not of the definition.
  const bool arithmetic = op == ReduceOp::sum || op == ReduceOp::product;
  if (arithmetic && is_nan(a) && is_nan(b) && is_nan(found)) return;
  ASSERT_EQ(std::memcmp(&found, &wanted, sizeof(T)), 0)
      << name(dtype_of<T>) << ' ' << name(op) << " at " << i << ": "
      << static_cast<double>(static_cast<Wide<T>>(a)) << ", " << static_cast<double>(static_cast<Wide<T>>(b))
      << " gave " << static_cast<double>(static_cast<Wide<T>>(found));
}

template <typename T>
void check(ReduceOp op, size_t count, size_t offset, std::mt19937_64& random) {
  const std::vector<T> a = random_bits<T>(count + 3, random), b = random_bits<T>(count + 3, random);
  std::vector<std::byte> memory((count + 8) * sizeof(T) * 2 + 64);
  // Elements at odd addresses: nothing promises that a buffer is aligned.
  const size_t stride = (count + 3) * sizeof(T) + offset;
  std::byte* const into = memory.data() + offset;
  std::byte* const from = into + stride;
  std::memcpy(into, a.data(), a.size() * sizeof(T));
  std::memcpy(from, b.data(), b.size() * sizeof(T));
  combine_function(dtype_of<T>, op)(into, from, count * sizeof(T));
  for (size_t i = 0; i < count + 3; ++i) {
    T found;
    std::memcpy(&found, into + i * sizeof(T), sizeof(T));
    // Behind the end nothing was touched.
    T wanted = a[i];
    if (i < count) wanted = T(apply(op, static_cast<Wide<T>>(a[i]), static_cast<Wide<T>>(b[i])));
    if (i < count) {
      ASSERT_NO_FATAL_FAILURE(expect_same(found, wanted, a[i], b[i], op, i));
    } else {
      ASSERT_EQ(std::memcmp(&found, &wanted, sizeof(T)), 0)
          << "element " << i << " of " << count << " was touched";
    }
  }
}

template <typename T>
void check_scale(size_t count, int ranks, std::mt19937_64& random) {
  const std::vector<T> before = random_bits<T>(count, random);
  std::vector<T> after = before;
  scale(reinterpret_cast<std::byte*>(after.data()), dtype_of<T>, count * sizeof(T), ranks);
  for (size_t i = 0; i < count; ++i) {
    const T wanted = T(static_cast<Wide<T>>(before[i]) * (Wide<T>(1) / static_cast<Wide<T>>(ranks)));
    ASSERT_EQ(std::memcmp(&after[i], &wanted, sizeof(T)), 0) << name(dtype_of<T>) << " at " << i;
  }
}

// Runs the body once for every instruction set that this machine has and the library was built for.
template <typename Body>
void on_every_target(const Body& body) {
  for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    const int64_t target = targets & -targets;
    if (!(target & HWY_TARGETS)) continue;  // not built
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Reduce, EveryFormatAndOpAtEveryLength) {
  std::mt19937_64 random(7);
  on_every_target([&] {
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : kOps) {
        for (size_t count = 0; count <= 130; ++count) {
          with_type(dtype, [&](auto value) { check<decltype(value)>(op, count, count % 7, random); });
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(Reduce, CuttingChangesNoBit) {
  std::mt19937_64 random(8);
  for (const DType dtype : kDTypes) {
    with_type(dtype, [&](auto value) {
      using T = decltype(value);
      const std::vector<T> a = random_bits<T>(100, random), b = random_bits<T>(100, random);
      for (const ReduceOp op : kOps) {
        const Combine combine = combine_function(dtype, op);
        std::vector<T> whole = a;
        combine(reinterpret_cast<std::byte*>(whole.data()), reinterpret_cast<const std::byte*>(b.data()),
                100 * sizeof(T));
        for (const size_t cut : {1, 3, 17, 50, 99}) {
          std::vector<T> parts = a;
          combine(reinterpret_cast<std::byte*>(parts.data()), reinterpret_cast<const std::byte*>(b.data()),
                  cut * sizeof(T));
          combine(reinterpret_cast<std::byte*>(parts.data() + cut),
                  reinterpret_cast<const std::byte*>(b.data() + cut), (100 - cut) * sizeof(T));
          for (size_t i = 0; i < parts.size(); ++i) {
            // Which NaN comes of two is the compiler's choice; see above.
            if (is_nan(parts[i]) && is_nan(whole[i])) continue;
            ASSERT_EQ(std::memcmp(&parts[i], &whole[i], sizeof(T)), 0) << name(dtype) << name(op) << " " << i;
          }
        }
      }
    });
  }
}

TEST(Reduce, ScalesEveryFloatFormat) {
  std::mt19937_64 random(9);
  on_every_target([&] {
    for (size_t count = 0; count <= 130; ++count) {
      for (const int ranks : {1, 2, 3, 7, 16}) {
        check_scale<double>(count, ranks, random);
        check_scale<float>(count, ranks, random);
        check_scale<F16>(count, ranks, random);
        check_scale<Bf16>(count, ranks, random);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TEST(Reduce, RefusesAveragesOfIntegers) {
  std::byte data[8] = {};
  EXPECT_THROW(check_reducible(DType::i32, ReduceOp::average), Error);
  EXPECT_THROW(scale(data, DType::u8, 8, 2), Error);
  EXPECT_NO_THROW(check_reducible(DType::bf16, ReduceOp::average));
}

}  // namespace
}  // namespace trireme::comm

// The vectorised reduction over many inputs against the scalar definition: every format, op and length around
// a vector's, odd values included, and in place.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/comm/transport/reduce.h"

namespace trireme::comm {
namespace {

template <typename T>
class ManyReduceOf : public ::testing::Test {};
using Formats = ::testing::Types<double, float, F16, Bf16, int64_t, int32_t, uint8_t>;
TYPED_TEST_SUITE(ManyReduceOf, Formats);

template <typename T>
using Widened = std::conditional_t<std::is_class_v<T>, float, T>;

template <typename T>
Widened<T> reduced(ReduceOp op, Widened<T> a, Widened<T> b) {
  switch (op) {
    case ReduceOp::max:
      return a > b || a != a ? a : b;
    case ReduceOp::min:
      return a < b || a != a ? a : b;
    case ReduceOp::product:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      }
      return a * b;
    default:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      }
      return a + b;
  }
}

// Numbers of all kinds; the larger ones overflow when added.
template <typename T>
T value(size_t i, int input) {
  const size_t which = i * 3 + static_cast<size_t>(input) * 5;
  if constexpr (std::is_integral_v<T>) {
    return which % 7 == 0 ? std::numeric_limits<T>::max() : static_cast<T>(which * 37);
  } else {
    const float odd[] = {0.1f, -3.7f, 1e30f, NAN, -0.0f, INFINITY, 65504.0f, 1e-7f, 2.0f, 5.5f, -1e-3f};
    return T(odd[which % 11]);
  }
}

TYPED_TEST(ManyReduceOf, every_op_and_length) {
  using T = TypeParam;
  for (const ReduceOp op :
       {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min, ReduceOp::product}) {
    if (op == ReduceOp::average && std::is_integral_v<T>) continue;
    const ManyReduce function = many_reduce_function(dtype_of<T>, op);
    for (const int ranks : {1, 2, 3, 5}) {
      for (size_t count = 0; count < 200; count += count < 70 ? 1 : 29) {
        std::vector<std::vector<T>> data(ranks, std::vector<T>(count));
        std::vector<T> alone(count), elsewhere(count);
        std::vector<const std::byte*> inputs;
        for (int r = 0; r < ranks; ++r) {
          for (size_t i = 0; i < count; ++i) data[r][i] = value<T>(i, r);
          inputs.push_back(reinterpret_cast<const std::byte*>(data[r].data()));
        }
        std::vector<T> wanted(count);
        for (size_t i = 0; i < count; ++i) {
          auto sum = static_cast<Widened<T>>(data[0][i]);
          for (int r = 1; r < ranks; ++r) sum = reduced<T>(op, sum, static_cast<Widened<T>>(data[r][i]));
          if (op == ReduceOp::average) sum = sum * (Widened<T>(1) / static_cast<Widened<T>>(ranks));
          wanted[i] = T(sum);
        }
        // One output, as mail has it; then two, of which one is the last input, as in the direct way.
        function(inputs, std::vector{reinterpret_cast<std::byte*>(alone.data())}, count * sizeof(T));
        const std::vector<std::byte*> outputs = {reinterpret_cast<std::byte*>(elsewhere.data()),
                                                 reinterpret_cast<std::byte*>(data[ranks - 1].data())};
        function(inputs, outputs, count * sizeof(T));
        const auto same = [](T a, T b) {
          const auto x = static_cast<Widened<T>>(a);
          const auto y = static_cast<Widened<T>>(b);
          return (x != x && y != y) || std::memcmp(&a, &b, sizeof a) == 0;
        };
        for (size_t i = 0; i < count; ++i) {
          ASSERT_TRUE(same(alone[i], wanted[i]))
              << name(op) << ", one output, " << ranks << " inputs, element " << i;
          ASSERT_TRUE(same(elsewhere[i], wanted[i])) << name(op) << ", " << ranks << " inputs, element " << i;
          ASSERT_TRUE(same(data[ranks - 1][i], wanted[i])) << "in place, element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::comm

// Vectors of any format with values that every format holds exactly, and what collectives should make of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/collective/call.h"

namespace trireme::comm {

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                             DType::i64, DType::i32, DType::u8};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min,
                             ReduceOp::product};

// The value that `rank` gives at element i: small enough for sums and products over 16 ranks to be exact in
// every format.
double given(ReduceOp op, int rank, int64_t i);
// The reduction of given() over ranks 0 … ranks-1, before it is rounded to a format.
double reduced(ReduceOp op, int ranks, int64_t i);

// A vector with room on both sides that must not be touched.
class Numbers {
 public:
  Numbers(DType dtype, int64_t count);
  void* data() { return bytes_.data() + kGuard; }
  void set(int64_t i, double value);
  // Throws, naming the element, when it is not `value` rounded to the format.
  void expect(int64_t i, double value, const std::string& what) const;
  void expect_guards(const std::string& what) const;

 private:
  static constexpr size_t kGuard = 64;
  DType dtype_;
  int64_t count_;
  std::vector<std::byte> bytes_;
};

}  // namespace trireme::comm

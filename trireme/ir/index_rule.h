// An op in index notation, for one instance: which index runs along which dim of which tensor.
//
//   layer_norm   x[b… h] gain[h] bias[h] -> y[b… h] mean[b…] rstd[b…]     whole h
//   matmul       a[b… m k] b[k n]        -> y[b… m n]
//
// `b…` stands for any number of indices. `(g d)` is one dim that two indices share, the first being the
// major one. From the rule follow the shapes of the results, the FLOPs of contractions and every legal way
// to split the op:
//   - a tensor that has the index is split along that dim; one that has not is needed (or made) whole;
//   - a result that lacks the index is then partial: its parts must be added, or maxed;
//   - an index marked whole may not be split. Splitting a minor index of a shared dim takes a piece out of
//   each
//     block of that dim.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/ir/attrs.h"
#include "trireme/ir/type.h"

namespace trireme {

// What an op's record is asked about: one use of the op, before its results exist.
struct OpInstance {
  std::string_view op;
  const std::vector<TensorType>& inputs;
  const Attrs& attrs;

  const Shape& shape(int input) const { return inputs.at(input).shape; }
  // The number format of the instance: that of its first floating-point input, f32 when it has none.
  DType format() const;
};

struct Index {
  enum class Split { kAllowed, kWhole };
  enum class Combine { kSum, kMax };  // how partial results are put together

  std::string name;
  int64_t extent = -1;
  Split split = Split::kAllowed;
  Combine combine = Combine::kSum;
};

class IndexRule {
 public:
  using Dim = std::vector<int>;  // the indices along one dim, major first
  using Operand = std::vector<Dim>;

  std::vector<Index> indices;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;

  // Modifiers for the records; names with `…` stand for all their indices.
  IndexRule& whole(std::string_view names);                // "h", "t s d"
  IndexRule& max(std::string_view names);                  // partial results are maxed, not added
  IndexRule& size(std::string_view name, int64_t extent);  // for an index that no input has

  // Where index `i` runs along an operand: the dim, or −1.
  static int dim_of(const Operand& operand, int index);
  bool may_split(int index) const;
  Shape output_shape(int output) const;
  // The product of all extents: the number of multiply-adds of a contraction. It may exceed 2^63.
  double volume() const;

  std::string text(std::string_view op) const;  // for messages and documents

 private:
  std::vector<int> matching(std::string_view names) const;
};

// A rule as it is written, for all instances.
struct WrittenRule {
  explicit WrittenRule(std::string_view text);

  struct Dim {
    std::vector<int> names;  // by their numbers
    bool many = false;       // `b…`
  };
  struct Operand {
    std::string name;
    std::vector<Dim> dims;
  };
  std::string text;
  std::vector<std::string> names;  // of indices, in the order in which they are first written; "b" of `b…`
  std::vector<Operand> inputs, outputs;
};

template <size_t kSize>
struct RuleText {
  consteval RuleText(const char (&literal)[kSize]) { std::ranges::copy(literal, text); }
  char text[kSize];
};
// "x[i…] -> y[i…]"_rule: read once, however often an op is asked.
template <RuleText kRule>
const WrittenRule& operator""_rule() {
  static const WrittenRule written(kRule.text);
  return written;
}

// The rule with extents bound to the instance's inputs. Throws an Error in the words of the rule when the
// number of inputs, a rank or an extent does not fit.
IndexRule rule(const OpInstance& instance, const WrittenRule& written);

}  // namespace trireme

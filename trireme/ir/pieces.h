// Attributes of an op whose part of a sequence is several equal pieces of it, as of a sequence that is dealt
// out in stripes: `pieces` of them along `pieces_dim` of the first input, each beginning `stride` after the
// one before. Where the first begins, the op's own attributes say. Passes set them (passes/partition.cc) for
// ops that take pieces (OpRecord::localizes). `key_pieces`, `key_offset` and `key_stride` say the same of a
// part of what the first input is held against.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trireme/base/shape.h"
#include "trireme/ir/attrs.h"
#include "trireme/ir/index_rule.h"

namespace trireme {

inline bool has_pieces(const Attrs& attrs) {
  return attrs.has("pieces");
}
inline void set_pieces(Attrs& attrs, int dim, int64_t pieces, int64_t stride) {
  attrs.set("pieces_dim", int64_t{dim});
  attrs.set("pieces", pieces);
  attrs.set("stride", stride);
}

// Throws Error where they are not equal pieces, in ascending order, of the dim of the first input. `dim`: the
// only one along which the op takes them; −1: any.
void check_pieces(const OpInstance& op, int dim);
inline bool has_key_pieces(const Attrs& attrs) {
  return attrs.has("key_pieces");
}
void check_key_pieces(const OpInstance& op, int64_t keys);

// Throws Error where there are any: for kernels that take one run alone.
void refuse_pieces(const Attrs& attrs);

// The position in the whole of each of `count` neighbours in a part. Ascending.
struct Positions {
  int64_t first, run, stride;  // of one run, stride = run

  Positions(const Attrs& attrs, int64_t count, int64_t first_position)
      : Positions(count, first_position, attrs.integer("pieces", 1), attrs.integer("stride", 0)) {}
  static Positions of_keys(const Attrs& attrs, int64_t count) {
    return {count, attrs.integer("key_offset", 0), attrs.integer("key_pieces", 1),
            attrs.integer("key_stride", 0)};
  }
  Positions(int64_t count, int64_t first_position, int64_t pieces, int64_t apart)
      : first(first_position), run(std::max<int64_t>(1, count / pieces)), stride(pieces > 1 ? apart : run) {}
  int64_t operator[](int64_t i) const { return first + i / run * stride + i % run; }
  // How many of an endless part come before this position.
  int64_t before(int64_t position) const {
    const int64_t ahead = position - first;
    return ahead <= 0 ? 0 : ahead / stride * run + std::min(ahead % stride, run);
  }
};

// The shape with the dim of the pieces as two: pieces, and positions in each; of a part, or of the whole that
// it comes from. As it is where there are none.
Shape part_in_pieces(const Shape& part, const Attrs& attrs);
Shape whole_in_pieces(const Shape& whole, const Attrs& attrs);

}  // namespace trireme

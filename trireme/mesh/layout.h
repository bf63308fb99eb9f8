// Layout: how one tensor lies on a mesh. Along each axis it is the same on all ranks, or split along a dim,
// or partial: what the ranks hold must still be added (or maxed) to be the value.
//
//   {}                      every rank has all of it
//   {data:0}                dim 0 is split over the axis data
//   {data:0 tensor:sum}     and what each rank has is one addend over tensor
//   {tensor:1/64}           split along dim 1 in whole units of 64 elements (heads of 64, say)
//   {tensor:1x3}            dim 1 is 3 blocks one after another (q, k, v), and each of them is split
//
// Two axes may split one dim. Units and blocks are those of the whole tensor, so {data:0/16 tensor:0x8} of
// 128 rows, 8 samples of 16 tokens, gives each rank its tokens of its samples: neither cut reaches into the
// other, and which axis comes first does not matter. Where cuts do overlap, as in {data:0 tensor:0}, they are
// nested: the later axis of the mesh cuts first, the earlier one cuts its parts, and all of them must be
// even. Elsewhere parts need not be even; they are cut as part_of() says, in whole units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/part.h"
#include "trireme/base/shape.h"
#include "trireme/mesh/mesh.h"

namespace trireme {

struct Placement {
  enum class Kind : uint8_t { kReplicated, kSplit, kSum, kMax };
  Kind kind = Kind::kReplicated;
  int dim = -1;        // of a split
  int64_t unit = 1;    // of a split: that many neighbours stay together
  int64_t blocks = 1;  // of a split: the dim is so many equal blocks, each cut the same way

  static Placement split(int dim, int64_t unit = 1, int64_t blocks = 1) {
    return {Kind::kSplit, dim, unit, blocks};
  }
  static Placement sum() { return {Kind::kSum}; }
  static Placement max() { return {Kind::kMax}; }
  bool is_partial() const { return kind == Kind::kSum || kind == Kind::kMax; }
  friend bool operator==(const Placement&, const Placement&) = default;
};

// One placement per axis of the mesh.
using Layout = std::vector<Placement>;

Layout replicated(const Mesh& mesh);

// What a rank holds of the whole tensor: for each dim the pieces of it, one after another.
using Pieces = std::vector<Part>;
std::vector<Pieces> local_pieces(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank);
Shape local_shape(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank);

// The split along `axis` in terms of what the rank and those along the axis have together: the tensor as the
// other axes cut it. Collectives along the axis are called with it.
Placement local_placement(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank, int axis);

// Whether the cuts of two axes overlap: the one of the earlier axis can not stay as it is when the other is
// changed.
bool are_nested(const Shape& whole, const Layout& layout, const Mesh& mesh, int axis, int other);

// The same layout in the one form that can be compared: units that change no boundary become 1, and what an
// axis of size 1 does is replicated.
Layout normal_form(Layout layout, const Shape& whole, const Mesh& mesh);

// What is wrong with a layout of a tensor of this shape, in words; "" for nothing.
std::string layout_problem(const Layout& layout, const Shape& whole, const Mesh& mesh);

// An Error when the tensor has no such dim, its extent is no multiple of the unit, nested cuts are not even,
// or the number of placements is not that of the axes. `what` names the tensor.
void check_layout(const Layout& layout, const Shape& whole, const Mesh& mesh, std::string_view what);

std::string to_string(const Layout& layout, const Mesh& mesh);
Layout parse_layout(std::string_view text, const Mesh& mesh);

}  // namespace trireme

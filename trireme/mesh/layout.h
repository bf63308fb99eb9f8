// Layout: how one tensor lies on a mesh. Along each axis it is the same on all ranks, or split along a dim,
// or partial: what the ranks hold must still be added (or maxed) to be the value.
//
//   {}                      every rank has all of it
//   {data:0}                dim 0 is split over the axis data
//   {data:0 tensor:sum}     and what each rank has is one addend over tensor
//   {tensor:1/64}           split along dim 1 in whole units of 64 elements (heads of 64, say)
//   {tensor:1x3}            dim 1 is 3 blocks one after another (q, k, v), and each of them is split
//
// Two axes may split one dim: the earlier axis of the mesh cuts first, the later one cuts its parts. Parts
// need not be even; they are cut as part_of() says, in whole units.
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

// The same layout in the one form that can be compared: units that change no boundary become 1, and what an
// axis of size 1 does is replicated.
Layout normal_form(Layout layout, const Shape& whole, const Mesh& mesh);

// An Error when the tensor has no such dim, its extent is no multiple of the unit, or the number of
// placements is not that of the axes. `what` names the tensor.
void check_layout(const Layout& layout, const Shape& whole, const Mesh& mesh, std::string_view what);

std::string to_string(const Layout& layout, const Mesh& mesh);
Layout parse_layout(std::string_view text, const Mesh& mesh);

}  // namespace trireme

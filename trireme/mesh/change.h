// The table of layout changes: what has to happen to a tensor so that it lies another way. Every collective
// of a program comes from here.
//
//   partial    → replicated   all_reduce
//   partial    → split        reduce_scatter
//   split      → replicated   all_gather
//   split i    → split j      all_to_all
//   replicated → split        slice, which moves nothing
//   replicated → partial sum  addend: the first rank keeps it, the others have zeros; moves nothing
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "trireme/ir/collective.h"
#include "trireme/ir/type.h"
#include "trireme/mesh/layout.h"

namespace trireme {

struct Change {
  enum class Kind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kSlice, kAddend };
  Kind kind;
  int axis;  // of the mesh; the others keep their placement
  Placement from;
  Placement to;
  friend bool operator==(const Change&, const Change&) = default;
};

std::optional<CollectiveKind> collective_of(Change::Kind kind);  // nullopt for what moves nothing
std::string_view name(Change::Kind kind);  // "all_reduce", the name of its node in a program

// The changes that lead from one layout to the other, in order; empty when they are the same, nullopt when
// nothing leads there. Both are layouts of a tensor of this shape, in normal form. Where the cuts of two axes
// are nested, the inner one is undone before the outer one is touched and made again after.
std::optional<std::vector<Change>> changes(const Layout& from, const Layout& to, const Shape& whole,
                                           const Mesh& mesh);

// The layout after one change.
Layout after(Layout layout, const Change& change);

// Bytes that the busiest rank sends for all of them, as ir/collective.h has it.
double bytes_sent(const std::vector<Change>& changes, const TensorType& whole, Layout from, const Mesh& mesh);

}  // namespace trireme

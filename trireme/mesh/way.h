// Ways to split an op over a mesh, derived from its index rule alone. A way names for each axis the index
// that it cuts, or none; from it follow how every input must lie and how every result comes out.
#pragma once

#include <optional>
#include <vector>

#include "trireme/ir/index_rule.h"
#include "trireme/mesh/layout.h"

namespace trireme {

struct IndexCut {
  int index = -1;      // of the rule; −1: every rank of the axis does the same
  int64_t unit = 1;    // that many neighbours of the index stay together
  int64_t blocks = 1;  // the index is so many equal blocks, each cut the same way; a part is then pieces
  friend bool operator==(const IndexCut&, const IndexCut&) = default;
};

using Way = std::vector<IndexCut>;  // one per axis of the mesh

struct OperandLayouts {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
};

// Every legal way, in units of 1, the way that cuts nothing first. An index is cut only where each rank gets
// some of it, and by several axes together only where they still do.
std::vector<Way> ways_to_split(const IndexRule& rule, const Mesh& mesh);

// Whether each rank gets a part of every index that is cut, and none is cut that must be whole.
bool is_legal(const IndexRule& rule, const Way& way, const Mesh& mesh);

// How operands lie under a way: split where they have the index, partial where a result lacks it, else
// replicated.
OperandLayouts layouts_of(const IndexRule& rule, const Way& way, const Mesh& mesh);

// What a rank has of an index: runs of it, one after another, that do not touch.
Pieces pieces_under(const IndexRule& rule, const Way& way, int index, const Mesh& mesh, int rank);

// The distance from the beginning of one piece to that of the next; nullopt where they are not equal pieces
// that are equally far apart. Of one: its size.
std::optional<int64_t> stride_of(const Pieces& pieces);

// The cut of an index that would leave an operand where it lies along one axis of `ways` ranks; nullopt when
// the placement is no split along a major index, or its boundaries fall inside the minor ones.
std::optional<IndexCut> cut_from(const IndexRule& rule, const IndexRule::Operand& operand,
                                 const Placement& placement, int ways);

}  // namespace trireme

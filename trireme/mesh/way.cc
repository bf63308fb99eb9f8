// Index cuts to placements and back. The dim of an operand may hold several indices, the first being the
// major one; cutting that one cuts the dim in units of all the others.
#include "trireme/mesh/way.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// The product of the extents of indices [first, last) of a dim.
int64_t elements(const IndexRule& rule, const IndexRule::Dim& dim, size_t first, size_t last) {
  int64_t product = 1;
  for (size_t i = first; i < last; ++i) product *= rule.indices[dim[i]].extent;
  return product;
}

// How a cut of the index at `position` of a dim cuts the dim.
Placement placement_at(const IndexRule& rule, const IndexRule::Operand& operand, int dim, size_t position,
                       const IndexCut& cut) {
  const IndexRule::Dim& indices = operand[dim];
  return Placement::split(dim, cut.unit * elements(rule, indices, position + 1, indices.size()),
                          cut.blocks * elements(rule, indices, 0, position));
}

Placement placement_of(const IndexRule& rule, const IndexRule::Operand& operand, const IndexCut& cut) {
  const int dim = IndexRule::dim_of(operand, cut.index);
  if (dim < 0) return {};
  const size_t position = std::ranges::find(operand[dim], cut.index) - operand[dim].begin();
  return placement_at(rule, operand, dim, position, cut);
}

// Whether two placements along one dim of `extent` elements have the same boundaries.
bool same_boundaries(const Placement& a, const Placement& b, int64_t extent, int ways) {
  if (extent % (a.unit * a.blocks) != 0 || extent % (b.unit * b.blocks) != 0) return false;
  const auto boundary = [&](const Placement& p, int64_t block, int i) {
    const int64_t size = extent / p.blocks;
    return block * size + part_of(size / p.unit, ways, i).begin * p.unit;
  };
  if (a.blocks != b.blocks) return false;
  if (a.unit == b.unit) return true;
  const auto is_even = [&](const Placement& p) { return extent / p.blocks / p.unit % ways == 0; };
  if (is_even(a) && is_even(b)) return true;  // there may be thousands of ways
  for (int i = 0; i < ways; ++i) {
    if (boundary(a, 0, i) != boundary(b, 0, i)) return false;
  }
  return true;
}

Placement result_placement(const IndexRule& rule, const IndexRule::Operand& operand, const IndexCut& cut) {
  const Placement placement = placement_of(rule, operand, cut);
  if (placement.kind == Placement::Kind::kSplit) return placement;
  return rule.indices[cut.index].combine == Index::Combine::kMax ? Placement::max() : Placement::sum();
}

}  // namespace

bool is_legal(const IndexRule& rule, const Way& way, const Mesh& mesh) {
  for (size_t i = 0; i < rule.indices.size(); ++i) {
    int64_t left = rule.indices[i].extent;
    int axes = 0;
    bool even = true;
    for (size_t a = way.size(); a-- > 0;) {
      if (way[a].index != static_cast<int>(i)) continue;
      const int ways = mesh.axes()[a].size;
      const int64_t whole_units = way[a].unit * way[a].blocks;
      if (!rule.may_split(way[a].index) || left % whole_units != 0 || left / whole_units < ways) return false;
      even &= left / whole_units % ways == 0;
      left /= ways;
      if (++axes > 1 && !even) return false;
    }
  }
  return true;
}

std::vector<Way> ways_to_split(const IndexRule& rule, const Mesh& mesh) {
  std::vector<Way> ways = {Way(mesh.axes().size())};
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    if (mesh.axes()[a].size == 1) continue;
    const size_t before = ways.size();
    for (size_t w = 0; w < before; ++w) {
      for (size_t i = 0; i < rule.indices.size(); ++i) {
        Way way = ways[w];
        way[a] = {.index = static_cast<int>(i)};
        if (is_legal(rule, way, mesh)) ways.push_back(std::move(way));
      }
    }
  }
  return ways;
}

OperandLayouts layouts_of(const IndexRule& rule, const Way& way, const Mesh& mesh) {
  TRIREME_CHECK(is_legal(rule, way, mesh));
  OperandLayouts result;
  const auto lay = [&](const IndexRule::Operand& operand, auto placement) {
    Layout layout = replicated(mesh);
    for (size_t a = 0; a < way.size(); ++a) {
      if (way[a].index >= 0) layout[a] = placement(rule, operand, way[a]);
    }
    return layout;
  };
  for (const IndexRule::Operand& operand : rule.inputs) result.inputs.push_back(lay(operand, placement_of));
  for (const IndexRule::Operand& operand : rule.outputs)
    result.outputs.push_back(lay(operand, result_placement));
  return result;
}

Pieces pieces_under(const IndexRule& rule, const Way& way, int index, const Mesh& mesh, int rank) {
  Layout layout = replicated(mesh);
  for (size_t a = 0; a < way.size(); ++a) {
    if (way[a].index == index) layout[a] = Placement::split(0, way[a].unit, way[a].blocks);
  }
  const std::vector<Pieces> pieces = local_pieces({rule.indices[index].extent}, layout, mesh, rank);
  Pieces joined;
  for (const Part& piece : pieces[0]) {
    if (!joined.empty() && joined.back().end() == piece.begin)
      joined.back().size += piece.size;
    else
      joined.push_back(piece);
  }
  return joined;
}

std::optional<int64_t> stride_of(const Pieces& pieces) {
  if (pieces.size() < 2) return pieces.empty() ? 0 : pieces[0].size;
  const int64_t stride = pieces[1].begin - pieces[0].begin;
  for (size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i].size != pieces[0].size || pieces[i].begin - pieces[i - 1].begin != stride)
      return std::nullopt;
  }
  return stride > 0 ? std::optional(stride) : std::nullopt;
}

std::optional<IndexCut> cut_from(const IndexRule& rule, const IndexRule::Operand& operand,
                                 const Placement& placement, int ways) {
  if (placement.kind != Placement::Kind::kSplit) return std::nullopt;
  const IndexRule::Dim& dim = operand.at(placement.dim);
  const int64_t extent = elements(rule, dim, 0, dim.size());
  for (size_t position = 0; position < dim.size(); ++position) {
    const int64_t minor = elements(rule, dim, position + 1, dim.size()),
                  major = elements(rule, dim, 0, position);
    if (major == 0 || placement.blocks % major != 0) continue;
    const IndexCut cut{.index = dim[position],
                       .unit = std::max<int64_t>(1, placement.unit / minor),
                       .blocks = placement.blocks / major};
    if (rule.indices[cut.index].extent % (cut.unit * cut.blocks) != 0) continue;
    const Placement same = placement_at(rule, operand, placement.dim, position, cut);
    if (same_boundaries(same, placement, extent, ways)) return cut;
  }
  return std::nullopt;
}

}  // namespace trireme

// Index cuts to placements and back. The dim of an operand may hold several indices, the first being the
// major one; cutting that one cuts the dim in units of all the others.
#include "trireme/mesh/way.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

int64_t minor_elements(const IndexRule& rule, const IndexRule::Dim& dim) {
  int64_t elements = 1;
  for (size_t i = 1; i < dim.size(); ++i) elements *= rule.indices[dim[i]].extent;
  return elements;
}

Placement placement_of(const IndexRule& rule, const IndexRule::Operand& operand, const IndexCut& cut) {
  const int dim = IndexRule::dim_of(operand, cut.index);
  if (dim < 0) return {};
  return Placement::split(dim, cut.unit * minor_elements(rule, operand[dim]));
}

Placement result_placement(const IndexRule& rule, const IndexRule::Operand& operand, const IndexCut& cut) {
  const Placement placement = placement_of(rule, operand, cut);
  if (placement.kind == Placement::Kind::kSplit) return placement;
  return rule.indices[cut.index].combine == Index::Combine::kMax ? Placement::max() : Placement::sum();
}

}  // namespace

bool is_legal(const IndexRule& rule, const Way& way, const Mesh& mesh) {
  // Ranks per unit of each index, so that cuts of one index by several axes count together.
  std::vector<int64_t> left;
  for (const Index& index : rule.indices) left.push_back(index.extent);
  for (size_t a = way.size(); a-- > 0;) {
    const IndexCut& cut = way[a];
    if (cut.index < 0) continue;
    if (!rule.may_split(cut.index)) return false;
    // The smallest part decides; part_of() gives the last rank the least.
    left[cut.index] = left[cut.index] / cut.unit / mesh.axes()[a].size * cut.unit;
    if (left[cut.index] == 0) return false;
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

std::optional<IndexCut> cut_from(const IndexRule& rule, const IndexRule::Operand& operand,
                                 const Placement& placement, int ways) {
  if (placement.kind != Placement::Kind::kSplit) return std::nullopt;
  const IndexRule::Dim& dim = operand.at(placement.dim);
  if (dim.empty()) return std::nullopt;
  const int64_t minor = minor_elements(rule, dim), extent = rule.indices[dim[0]].extent;
  const IndexCut cut{.index = dim[0], .unit = std::max<int64_t>(1, placement.unit / minor)};
  if (extent % cut.unit != 0) return std::nullopt;
  for (int i = 0; i < ways; ++i) {
    const int64_t wanted = part_of(extent * minor / placement.unit, ways, i).begin * placement.unit;
    if (part_of(extent / cut.unit, ways, i).begin * cut.unit * minor != wanted) return std::nullopt;
  }
  return cut;
}

}  // namespace trireme

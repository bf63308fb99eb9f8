// Local parts of tensors, and the text form of layouts.
#include "trireme/mesh/layout.h"

#include <algorithm>
#include <charconv>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

// The placement with its unit made as small as leaves every boundary where it is.
Placement with_smallest_unit(Placement placement, int64_t extent, int ways) {
  if (placement.unit == 1) return placement;
  const int64_t block = extent / placement.blocks, units = block / placement.unit;
  const bool even = units * placement.unit == block && units % ways == 0;  // there may be thousands of ways
  for (int i = 0; i < ways && !even; ++i) {
    if (part_of(units, ways, i).begin * placement.unit != part_of(block, ways, i).begin) return placement;
  }
  placement.unit = 1;
  return placement;
}

// One axis' cut of a dim, in elements of the whole: blocks of `block` elements are cut in whole units of
// `unit`, of which a rank has `held`. An even cut has as many units as ways.
struct DimCut {
  int axis;
  int ways;
  int64_t block, unit;
  int64_t outer;  // ways of the axes that it is nested in together; 1: none
  int64_t held;   // units of what those leave of each block
  bool is_even() const { return unit * ways * outer == block; }
  // A number of elements, or of blocks or units of another cut, as it is under this one.
  int64_t share_of(int64_t count) const { return count * held * unit * outer / block; }
};

// Neither reaches into the other: whole blocks of one lie in each unit of the other.
bool are_separate(const DimCut& a, const DimCut& b) {
  return a.unit % b.block == 0 || b.unit % a.block == 0;
}

// The ways of all axes in whose cuts this one is nested.
int64_t ways_around(const std::vector<DimCut>& cuts, const DimCut& cut) {
  int64_t ways = 1;
  for (const DimCut& other : cuts) {
    if (!are_separate(other, cut)) ways *= other.ways;
  }
  return ways;
}

// All cuts of a dim, from the last axis of the mesh to the first, as `rank` sees them.
std::vector<DimCut> cuts_of(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank, int dim) {
  std::vector<DimCut> cuts;
  for (size_t a = layout.size(); a-- > 0;) {
    const Placement& placement = layout[a];
    const int ways = mesh.axes()[a].size;
    if (placement.kind != Placement::Kind::kSplit || placement.dim != dim) continue;
    if (ways == 1 || whole[dim] == 0) continue;
    DimCut cut{static_cast<int>(a), ways, whole[dim] / placement.blocks, placement.unit, 1, 0};
    // An even cut is described by its parts, whatever unit it was written with. A nested one has smaller
    // parts, which may make it nested in more.
    for (int64_t outer = 0; outer != cut.outer; cut.outer = ways_around(cuts, cut)) {
      outer = cut.outer;
      const int64_t left = cut.block / outer;
      if (left > 0 && left % (placement.unit * ways) == 0) cut.unit = left / ways;
    }
    cut.held = part_of(cut.block / cut.outer / cut.unit, ways, mesh.coordinate(rank, cut.axis)).size;
    cuts.push_back(cut);
  }
  return cuts;
}

int64_t extent_under(const std::vector<DimCut>& cuts, int64_t extent) {
  for (const DimCut& cut : cuts) extent = extent == 0 ? 0 : cut.share_of(extent);
  return extent;
}

// A cut in terms of what `others` leave of the dim.
Placement localised(const DimCut& cut, const std::vector<DimCut>& others, const Shape& whole, int dim) {
  Placement local = Placement::split(dim, cut.unit, whole[dim] / cut.block);
  for (const DimCut& other : others) {
    if (other.axis == cut.axis || !are_separate(cut, other)) continue;
    int64_t& count = other.unit % cut.block == 0 ? local.blocks : local.unit;
    count = other.share_of(count);
  }
  return local.unit > 0 && local.blocks > 0 ? local : Placement::split(dim);
}

// The pieces that lie in [begin, begin + size) of what `pieces` hold one after another.
void append_range(const Pieces& pieces, Part range, Pieces& result) {
  int64_t position = 0;
  for (const Part& piece : pieces) {
    const int64_t first = std::max(range.begin, position),
                  last = std::min(range.end(), position + piece.size);
    if (first < last) result.push_back({piece.begin + first - position, last - first});
    position += piece.size;
  }
}

int64_t size_of(const Pieces& pieces) {
  int64_t size = 0;
  for (const Part& piece : pieces) size += piece.size;
  return size;
}

Pieces cut(const Pieces& pieces, const Placement& placement, int ways, int coordinate) {
  const int64_t block = size_of(pieces) / placement.blocks;
  const Part units = part_of(block / placement.unit, ways, coordinate);
  Pieces result;
  for (int64_t b = 0; b < placement.blocks; ++b) {
    append_range(pieces, {b * block + units.begin * placement.unit, units.size * placement.unit}, result);
  }
  return result;
}

int64_t number(std::string_view text, std::string_view word) {
  int64_t value = -1;
  const char* end = text.data() + text.size();
  if (text.empty() || std::from_chars(text.data(), end, value).ptr != end || value < 0) {
    throw_error("layout: '{}' found in '{}'; a dim such as data:0, data:0/64, data:sum or data:max expected",
                text, word);
  }
  return value;
}

Placement parse_placement(std::string_view text, std::string_view word) {
  if (text == "sum") return Placement::sum();
  if (text == "max") return Placement::max();
  int64_t unit = 1, blocks = 1;
  const auto cut_suffix = [&](char mark, int64_t& value) {
    const size_t at = text.find(mark);
    if (at == std::string_view::npos) return;
    value = number(text.substr(at + 1), word);
    text = text.substr(0, at);
    if (value < 1) throw_error("layout: '{}' has {} after {}; 1 or more expected", word, value, mark);
  };
  cut_suffix('x', blocks);
  cut_suffix('/', unit);
  const int64_t dim = number(text, word);
  if (dim >= Shape::kMaxDims) {
    throw_error("layout: '{}' names dim {}; tensors have at most {}", word, dim, Shape::kMaxDims);
  }
  return Placement::split(static_cast<int>(dim), unit, blocks);
}

}  // namespace

Layout replicated(const Mesh& mesh) {
  return Layout(mesh.axes().size());
}

std::vector<Pieces> local_pieces(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank) {
  std::vector<Pieces> dims;
  for (int d = 0; d < whole.rank(); ++d) {
    Pieces pieces = {{0, whole[d]}};
    std::vector<DimCut> made;
    for (const DimCut& next : cuts_of(whole, layout, mesh, rank, d)) {
      pieces = cut(pieces, localised(next, made, whole, d), next.ways, mesh.coordinate(rank, next.axis));
      made.push_back(next);
    }
    dims.push_back(std::move(pieces));
  }
  return dims;
}

Shape local_shape(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank) {
  Shape shape;
  for (int d = 0; d < whole.rank(); ++d)
    shape.push_back(extent_under(cuts_of(whole, layout, mesh, rank, d), whole[d]));
  return shape;
}

Placement local_placement(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank, int axis) {
  const Placement& placement = layout.at(axis);
  TRIREME_CHECK(placement.kind == Placement::Kind::kSplit);
  std::vector<DimCut> cuts = cuts_of(whole, layout, mesh, rank, placement.dim);
  const auto own = std::ranges::find(cuts, axis, &DimCut::axis);
  if (own == cuts.end()) return placement;  // an axis of one rank
  const Placement local = localised(*own, cuts, whole, placement.dim);
  cuts.erase(own);
  return with_smallest_unit(local, extent_under(cuts, whole[placement.dim]), mesh.axes()[axis].size);
}

bool are_nested(const Shape& whole, const Layout& layout, const Mesh& mesh, int axis, int other) {
  const Placement &a = layout.at(axis), &b = layout.at(other);
  if (a.kind != Placement::Kind::kSplit || b.kind != Placement::Kind::kSplit || a.dim != b.dim) return false;
  const std::vector<DimCut> cuts = cuts_of(whole, layout, mesh, /*rank=*/0, a.dim);
  const auto first = std::ranges::find(cuts, axis, &DimCut::axis),
             second = std::ranges::find(cuts, other, &DimCut::axis);
  return first != cuts.end() && second != cuts.end() && !are_separate(*first, *second);
}

Layout normal_form(Layout layout, const Shape& whole, const Mesh& mesh) {
  for (size_t a = 0; a < layout.size(); ++a) {
    Placement& placement = layout[a];
    if (mesh.axes()[a].size == 1) placement = {};
    if (placement.kind != Placement::Kind::kSplit) continue;
    placement = with_smallest_unit(placement, whole[placement.dim], mesh.axes()[a].size);
  }
  return layout;
}

std::string layout_problem(const Layout& layout, const Shape& whole, const Mesh& mesh) {
  const auto of_dim = [&](int dim, const std::string& why) {
    return fmt::format("dim {} of {} {}", dim, to_string(whole), why);
  };
  for (const Placement& placement : layout) {
    if (placement.kind != Placement::Kind::kSplit) continue;
    if (placement.dim >= whole.rank()) return of_dim(placement.dim, "does not exist");
    if (whole[placement.dim] % (placement.unit * placement.blocks) != 0) {
      return of_dim(placement.dim, fmt::format("can not be cut in {} block(s) of whole units of {}",
                                               placement.blocks, placement.unit));
    }
    const int ways = mesh.axes()[&placement - layout.data()].size;
    const int64_t units = whole[placement.dim] / placement.unit / placement.blocks;
    if (units < ways)
      return of_dim(placement.dim, fmt::format("has {} unit(s) to share, too few for {} ranks", units, ways));
  }
  for (int d = 0; d < whole.rank(); ++d) {
    const std::vector<DimCut> cuts = cuts_of(whole, layout, mesh, /*rank=*/0, d);
    for (const DimCut& a : cuts) {
      // Ranks would disagree about the extents that the inner axis cuts.
      const auto disagrees = [&](const DimCut& b) {
        return a.axis != b.axis && !are_separate(a, b) && !(a.is_even() && b.is_even());
      };
      if (std::ranges::any_of(cuts, disagrees))
        return of_dim(d, "is cut by two axes, but does not divide evenly");
    }
  }
  return "";
}

void check_layout(const Layout& layout, const Shape& whole, const Mesh& mesh, std::string_view what) {
  if (layout.size() != mesh.axes().size()) {
    throw_error("layout of {} has {} placements, but the mesh '{}' has {} axes", what, layout.size(),
                to_string(mesh), mesh.axes().size());
  }
  if (const std::string problem = layout_problem(layout, whole, mesh); !problem.empty())
    throw_error("layout {} of {}: {}", to_string(layout, mesh), what, problem);
}

std::string to_string(const Layout& layout, const Mesh& mesh) {
  std::string text;
  for (size_t a = 0; a < layout.size(); ++a) {
    const Placement& placement = layout[a];
    if (placement.kind == Placement::Kind::kReplicated) continue;
    text += fmt::format("{}{}:", text.empty() ? "" : " ", mesh.axes()[a].name);
    if (placement.kind == Placement::Kind::kSum) text += "sum";
    if (placement.kind == Placement::Kind::kMax) text += "max";
    if (placement.kind == Placement::Kind::kSplit) {
      text += std::to_string(placement.dim);
      if (placement.unit != 1) text += fmt::format("/{}", placement.unit);
      if (placement.blocks != 1) text += fmt::format("x{}", placement.blocks);
    }
  }
  return "{" + text + "}";
}

Layout parse_layout(std::string_view text, const Mesh& mesh) {
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') {
    throw_error("layout: '{}' found; braces around it expected, such as {{data:0}}", text);
  }
  Layout layout = replicated(mesh);
  std::vector<bool> seen(layout.size());
  for (const std::string& word : split(text.substr(1, text.size() - 2), ' ')) {
    if (word.empty()) continue;
    const size_t colon = word.find(':');
    const int axis = mesh.axis(word.substr(0, colon));
    if (seen[axis]) throw_error("layout: axis {} comes twice in '{}'", mesh.axes()[axis].name, text);
    seen[axis] = true;
    layout[axis] =
        parse_placement(colon == std::string::npos ? "" : std::string_view(word).substr(colon + 1), word);
  }
  return layout;
}

}  // namespace trireme

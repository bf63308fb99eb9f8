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
  const int64_t block = extent / placement.blocks, units = block / placement.unit;
  for (int i = 0; i < ways; ++i) {
    if (part_of(units, ways, i).begin * placement.unit != part_of(block, ways, i).begin) return placement;
  }
  placement.unit = 1;
  return placement;
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

// How many axes cut the dim.
int64_t cuts(const Layout& layout, int dim) {
  return std::ranges::count_if(layout, [&](const Placement& placement) {
    return placement.kind == Placement::Kind::kSplit && placement.dim == dim;
  });
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
  for (int64_t extent : whole) dims.push_back({{0, extent}});
  for (size_t a = layout.size(); a-- > 0;) {
    const Placement& placement = layout[a];
    if (placement.kind != Placement::Kind::kSplit) continue;
    Pieces& pieces = dims.at(placement.dim);
    pieces = cut(pieces, placement, mesh.axes()[a].size, mesh.coordinate(rank, static_cast<int>(a)));
  }
  return dims;
}

Shape local_shape(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank) {
  Shape shape;
  for (const Pieces& pieces : local_pieces(whole, layout, mesh, rank)) shape.push_back(size_of(pieces));
  return shape;
}

Layout normal_form(Layout layout, const Shape& whole, const Mesh& mesh) {
  for (size_t a = 0; a < layout.size(); ++a) {
    Placement& placement = layout[a];
    if (mesh.axes()[a].size == 1) placement = {};
    if (placement.kind != Placement::Kind::kSplit) continue;
    if (cuts(layout, placement.dim) > 1) {
      placement.unit = 1;  // such a dim divides evenly
    } else {
      placement = with_smallest_unit(placement, whole[placement.dim], mesh.axes()[a].size);
    }
  }
  return layout;
}

void check_layout(const Layout& layout, const Shape& whole, const Mesh& mesh, std::string_view what) {
  if (layout.size() != mesh.axes().size()) {
    throw_error("layout of {} has {} placements, but the mesh '{}' has {} axes", what, layout.size(),
                to_string(mesh), mesh.axes().size());
  }
  const auto refuse = [&](const Placement& placement, const std::string& why) {
    throw_error("layout {} of {}: dim {} of {} {}", to_string(layout, mesh), what, placement.dim,
                to_string(whole), why);
  };
  std::vector<int64_t> left(whole.begin(), whole.end());
  for (size_t a = layout.size(); a-- > 0;) {
    const Placement& placement = layout[a];
    if (placement.kind != Placement::Kind::kSplit) continue;
    if (placement.dim >= whole.rank()) refuse(placement, "does not exist");
    int64_t& extent = left[placement.dim];
    if (extent % (placement.unit * placement.blocks) != 0) {
      refuse(placement, fmt::format("can not be cut in {} block(s) of whole units of {}", placement.blocks,
                                    placement.unit));
    }
    const int64_t units = extent / placement.blocks / placement.unit;
    // Ranks would disagree about the extents that the second axis cuts.
    if (cuts(layout, placement.dim) > 1 && units % mesh.axes()[a].size != 0) {
      refuse(placement, "is cut by two axes, but does not divide evenly");
    }
    extent /= mesh.axes()[a].size;
  }
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

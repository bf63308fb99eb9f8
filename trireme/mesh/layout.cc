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
  const int64_t units = extent / placement.unit;
  const bool same = [&] {
    for (int i = 0; i < ways; ++i) {
      const Part coarse = part_of(units, ways, i), fine = part_of(extent, ways, i);
      if (coarse.begin * placement.unit != fine.begin) return false;
    }
    return true;
  }();
  if (same) placement.unit = 1;
  return placement;
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
  const size_t slash = text.find('/');
  const int64_t dim = number(text.substr(0, slash), word);
  const int64_t unit = slash == std::string_view::npos ? 1 : number(text.substr(slash + 1), word);
  if (dim >= Shape::kMaxDims)
    throw_error("layout: '{}' names dim {}; tensors have at most {}", word, dim, Shape::kMaxDims);
  if (unit < 1) throw_error("layout: '{}' has unit {}; 1 or more expected", word, unit);
  return Placement::split(static_cast<int>(dim), unit);
}

}  // namespace

Layout replicated(const Mesh& mesh) {
  return Layout(mesh.axes().size());
}

std::vector<Part> local_part(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank) {
  std::vector<Part> parts;
  for (int64_t extent : whole) parts.push_back({0, extent});
  for (size_t a = layout.size(); a-- > 0;) {
    const Placement& placement = layout[a];
    if (placement.kind != Placement::Kind::kSplit) continue;
    Part& part = parts.at(placement.dim);
    const Part units =
        part_of(part.size / placement.unit, mesh.axes()[a].size, mesh.coordinate(rank, static_cast<int>(a)));
    part = {part.begin + units.begin * placement.unit, units.size * placement.unit};
  }
  return parts;
}

Shape local_shape(const Shape& whole, const Layout& layout, const Mesh& mesh, int rank) {
  Shape shape;
  for (const Part& part : local_part(whole, layout, mesh, rank)) shape.push_back(part.size);
  return shape;
}

Layout normal_form(Layout layout, const Shape& whole, const Mesh& mesh) {
  std::vector<int> splits(Shape::kMaxDims, 0);
  for (const Placement& placement : layout) {
    if (placement.kind == Placement::Kind::kSplit) ++splits[placement.dim];
  }
  for (size_t a = 0; a < layout.size(); ++a) {
    Placement& placement = layout[a];
    if (mesh.axes()[a].size == 1) placement = {};
    // Where two axes cut one dim the extents that the second sees differ from rank to rank: its unit stays.
    if (placement.kind == Placement::Kind::kSplit && splits[placement.dim] == 1) {
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
  for (size_t a = 0; a < layout.size(); ++a) {
    const Placement& placement = layout[a];
    if (placement.kind != Placement::Kind::kSplit) continue;
    if (placement.dim >= whole.rank()) {
      throw_error("layout {} of {}: there is no dim {} in {}", to_string(layout, mesh), what, placement.dim,
                  to_string(whole));
    }
    if (whole[placement.dim] % placement.unit != 0) {
      throw_error("layout {} of {}: dim {} of {} is no multiple of the unit {}", to_string(layout, mesh),
                  what, placement.dim, to_string(whole), placement.unit);
    }
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

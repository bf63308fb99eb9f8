// One row of the table per pair of placements, and the order in which axes are changed.
#include "trireme/mesh/change.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using Kind = Placement::Kind;

bool splits(const Placement& placement, int dim) {
  return placement.kind == Kind::kSplit && placement.dim == dim;
}

// How many axes split a dim before or after.
int64_t axes_over(const Layout& from, const Layout& to, int dim) {
  int64_t axes = 0;
  for (size_t a = 0; a < from.size(); ++a) axes += splits(from[a], dim) || splits(to[a], dim);
  return axes;
}

// Whether any cut that one axis has on the way is nested with any that the other has. Of more than two axes
// over one dim all count as nested: whether two of them are depends on the others.
bool are_nested_on_the_way(const Layout& from, const Layout& to, const Shape& whole, const Mesh& mesh,
                           int inner, int outer) {
  for (const Placement& a : {from[inner], to[inner]}) {
    for (const Placement& b : {from[outer], to[outer]}) {
      if (a.kind != Kind::kSplit || !splits(b, a.dim)) continue;
      Layout both = replicated(mesh);
      both[inner] = a;
      both[outer] = b;
      if (axes_over(from, to, a.dim) > 2 || are_nested(whole, both, mesh, inner, outer)) return true;
    }
  }
  return false;
}

// The axes whose cut lies inside that of an axis that changes along the same dim: they are undone first.
std::vector<bool> disturbed_axes(const Layout& from, const Layout& to, const Shape& whole, const Mesh& mesh) {
  std::vector<bool> disturbed(from.size());
  for (size_t outer = from.size(); outer-- > 0;) {
    if (from[outer] == to[outer] && !disturbed[outer]) continue;
    for (size_t inner = 0; inner < outer; ++inner) {
      if (are_nested_on_the_way(from, to, whole, mesh, static_cast<int>(inner), static_cast<int>(outer)))
        disturbed[inner] = true;
    }
  }
  return disturbed;
}

// Appends what changes one axis; false when nothing does.
bool append(std::vector<Change>& result, int axis, const Placement& from, const Placement& to) {
  if (from == to) return true;
  if (to.kind == Kind::kMax) return false;
  if (to.kind == Kind::kSum) {
    if (from.kind == Kind::kMax) return false;
    if (from.kind == Kind::kSplit) result.push_back({Change::Kind::kAllGather, axis, from, {}});
    result.push_back({Change::Kind::kAddend, axis, {}, to});
    return true;
  }
  if (from.is_partial()) {
    const auto kind = to.kind == Kind::kSplit ? Change::Kind::kReduceScatter : Change::Kind::kAllReduce;
    result.push_back({kind, axis, from, to});
  } else if (from.kind == Kind::kReplicated) {
    result.push_back({Change::Kind::kSlice, axis, from, to});
  } else if (to.kind == Kind::kReplicated) {
    result.push_back({Change::Kind::kAllGather, axis, from, to});
  } else if (from.dim != to.dim) {
    result.push_back({Change::Kind::kAllToAll, axis, from, to});
  } else {  // the same dim in other units: rare, and not worth a collective of its own
    result.push_back({Change::Kind::kAllGather, axis, from, {}});
    result.push_back({Change::Kind::kSlice, axis, {}, to});
  }
  return true;
}

// What shrinks a tensor comes before what only moves it, and that before what makes it larger.
int order_of(const Change& change) {
  switch (change.kind) {
    case Change::Kind::kSlice:
    case Change::Kind::kAddend:
      return 0;
    case Change::Kind::kReduceScatter:
      return 1;
    case Change::Kind::kAllToAll:
      return 2;
    case Change::Kind::kAllReduce:
      return 3;
    case Change::Kind::kAllGather:
      return 4;
  }
  return 5;
}

// Of all changes of one axis.
int latest_order(const std::vector<Change>& of_axis) {
  int latest = 0;
  for (const Change& change : of_axis) latest = std::max(latest, order_of(change));
  return latest;
}

}  // namespace

std::optional<CollectiveKind> collective_of(Change::Kind kind) {
  switch (kind) {
    case Change::Kind::kAllReduce:
      return CollectiveKind::kAllReduce;
    case Change::Kind::kReduceScatter:
      return CollectiveKind::kReduceScatter;
    case Change::Kind::kAllGather:
      return CollectiveKind::kAllGather;
    case Change::Kind::kAllToAll:
      return CollectiveKind::kAllToAll;
    case Change::Kind::kSlice:
    case Change::Kind::kAddend:
      break;
  }
  return std::nullopt;
}

std::string_view name(Change::Kind kind) {
  if (const auto collective = collective_of(kind)) return name(*collective);
  return kind == Change::Kind::kSlice ? "slice" : "addend";
}

std::optional<std::vector<Change>> changes(const Layout& from, const Layout& to, const Shape& whole,
                                           const Mesh& mesh) {
  TRIREME_CHECK(from.size() == to.size());
  if (from == to) return std::vector<Change>{};
  const std::vector<bool> disturbed = disturbed_axes(from, to, whole, mesh);
  std::vector<Change> result;
  Layout now = from;
  for (size_t a = 0; a < from.size(); ++a) {  // inner cuts first
    if (!disturbed[a] || from[a].kind != Kind::kSplit) continue;
    append(result, static_cast<int>(a), from[a], {});
    now[a] = {};
  }
  std::vector<std::vector<Change>> free(from.size());
  for (size_t a = 0; a < from.size(); ++a) {
    if (!disturbed[a] && !append(free[a], static_cast<int>(a), now[a], to[a])) return std::nullopt;
  }
  std::ranges::stable_sort(free, {}, latest_order);
  for (const std::vector<Change>& of_axis : free) result.insert(result.end(), of_axis.begin(), of_axis.end());
  for (size_t a = from.size(); a-- > 0;) {  // and made again last
    if (disturbed[a] && !append(result, static_cast<int>(a), now[a], to[a])) return std::nullopt;
  }
  return result;
}

Layout after(Layout layout, const Change& change) {
  TRIREME_CHECK(layout.at(change.axis) == change.from);
  layout[change.axis] = change.to;
  return layout;
}

double bytes_sent(const std::vector<Change>& changes, const TensorType& whole, Layout from,
                  const Mesh& mesh) {
  const auto local_bytes = [&](const Layout& layout) {
    // Rank 0 has the largest part of everything.
    return static_cast<double>(local_shape(whole.shape, layout, mesh, 0).elements()) *
           static_cast<double>(size_of(whole.dtype));
  };
  double total = 0;
  for (const Change& change : changes) {
    const Layout to = after(from, change);
    if (const auto kind = collective_of(change.kind))
      total += bytes_sent(*kind, mesh.axes()[change.axis].size, local_bytes(from), local_bytes(to));
    from = to;
  }
  return total;
}

}  // namespace trireme

// Changes are carried out here on small arrays, rank by rank, and must give what the new layout says.
#include "trireme/mesh/change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;

// What every rank holds of a whole tensor of two dims.
struct Held {
  std::vector<std::vector<Pieces>> pieces;
  std::vector<std::vector<double>> values;
};

// Calls body(i, j) for every element that a rank holds, in the order in which it holds them.
template <typename Body>
void for_each_held(const std::vector<Pieces>& pieces, const Body& body) {
  for (const Part& rows : pieces[0]) {
    for (int64_t i = rows.begin; i < rows.end(); ++i) {
      for (const Part& columns : pieces[1]) {
        for (int64_t j = columns.begin; j < columns.end(); ++j) body(i, j);
      }
    }
  }
}

// The addends of a partial value, however they came about, add up to it. Here rank coordinates 0, 1, … hold
// (c + 1) / total of it.
double addend(const Layout& layout, const Mesh& mesh, int rank, double value) {
  for (size_t a = 0; a < layout.size(); ++a) {
    const int ways = mesh.axes()[a].size, coordinate = mesh.coordinate(rank, static_cast<int>(a));
    if (layout[a].kind == Placement::Kind::kSum) value *= (coordinate + 1) / (ways * (ways + 1) / 2.0);
    if (layout[a].kind == Placement::Kind::kMax && coordinate != ways - 1) value -= 1;
  }
  return value;
}

Held hold(const Shape& whole, const Layout& layout, const Mesh& mesh) {
  Held held;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const std::vector<Pieces> pieces = local_pieces(whole, layout, mesh, rank);
    std::vector<double> values;
    for_each_held(pieces, [&](int64_t i, int64_t j) {
      values.push_back(addend(layout, mesh, rank, 100.0 + static_cast<double>(i * whole[1] + j)));
    });
    held.pieces.push_back(pieces);
    held.values.push_back(values);
  }
  return held;
}

// What the members of a rank's group along the axis have at one place: added, maxed, or whoever has it.
double combined(const Held& held, const std::vector<int>& members, const Placement& from, int64_t i,
                int64_t j) {
  double result = from.kind == Placement::Kind::kMax ? -1e30 : 0;
  int holders = 0;
  for (int member : members) {
    size_t at = 0;
    for_each_held(held.pieces[member], [&](int64_t held_i, int64_t held_j) {
      const double value = held.values[member][at++];
      if (held_i != i || held_j != j) return;
      if (from.kind == Placement::Kind::kMax) result = std::max(result, value);
      if (from.kind == Placement::Kind::kSum) result += value;
      if (!from.is_partial()) result = value;
      ++holders;
    });
  }
  // The group along this one axis must hold all that the change promises to find there.
  EXPECT_GT(holders, 0) << "nobody holds " << i << "," << j;
  return result;
}

Held carry_out(const Held& held, const Change& change, const Shape& whole, const Layout& to,
               const Mesh& mesh) {
  Held next;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const std::vector<Pieces> pieces = local_pieces(whole, to, mesh, rank);
    const std::vector<int> members =
        change.kind == Change::Kind::kSlice ? std::vector{rank} : mesh.members(rank, change.axis);
    std::vector<double> values;
    for_each_held(
        pieces, [&](int64_t i, int64_t j) { values.push_back(combined(held, members, change.from, i, j)); });
    next.pieces.push_back(pieces);
    next.values.push_back(values);
  }
  return next;
}

// Every layout that a tensor of this shape may have of these placements, in normal form.
std::vector<Layout> all_layouts(const Shape& whole, const Mesh& mesh,
                                const std::vector<Placement>& placements) {
  std::vector<Layout> result = {{}};
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    std::vector<Layout> longer;
    for (const Layout& layout : result) {
      for (const Placement& placement : placements) {
        longer.push_back(layout);
        longer.back().push_back(placement);
      }
    }
    result = longer;
  }
  std::erase_if(result, [&](const Layout& layout) {
    try {
      check_layout(layout, whole, mesh, "a test");
      return normal_form(layout, whole, mesh) != layout;
    } catch (const Error&) {
      return true;
    }
  });
  return result;
}

// Carries out what leads from one layout to the other and expects the values there; false: nothing leads
// there.
bool leads_there(const Layout& from, const Layout& to, const Shape& whole, const Mesh& mesh) {
  const auto path = changes(from, to, whole, mesh);
  bool possible = true;
  for (size_t a = 0; a < to.size(); ++a) {
    possible &= to[a].kind != Placement::Kind::kMax || to[a] == from[a];
    possible &= to[a].kind != Placement::Kind::kSum || from[a].kind != Placement::Kind::kMax;
  }
  const std::string text = to_string(from, mesh) + " to " + to_string(to, mesh);
  EXPECT_EQ(path.has_value(), possible) << text;
  if (!path) return false;
  Held held = hold(whole, from, mesh);
  Layout now = from;
  for (const Change& change : *path) {
    now = after(now, change);
    held = carry_out(held, change, whole, now, mesh);
  }
  EXPECT_EQ(now, to) << text;
  if (std::ranges::any_of(*path, [](const Change& c) { return c.kind == Change::Kind::kAddend; }))
    return true;
  const Held wanted = hold(whole, to, mesh);
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    EXPECT_THAT(held.values[rank], testing::Pointwise(testing::DoubleNear(1e-9), wanted.values[rank]))
        << text << " on rank " << rank;
  return true;
}

TEST(Change, EveryChangeLeadsWhereItSays) {
  const Mesh mesh({{"data", 2}, {"tensor", 3}});
  const Shape whole{12, 5};
  int carried_out = 0;
  const std::vector<Layout> layouts = all_layouts(whole, mesh,
                                                  {{},
                                                   Placement::split(0),
                                                   Placement::split(1),
                                                   Placement::split(0, 3),
                                                   Placement::split(0, 1, 2),
                                                   Placement::split(0, 6),
                                                   Placement::sum(),
                                                   Placement::max()});
  for (const Layout& from : layouts) {
    // A sum of maxima is no maximum of sums: such values do not occur.
    if (from[0].is_partial() && from[1].is_partial() && from[0].kind != from[1].kind) continue;
    for (const Layout& to : layouts) {
      carried_out += leads_there(from, to, whole, mesh);
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(carried_out, 300);
}

// Three axes that cut one dim: some of the cuts nested, some beside each other.
TEST(Change, ThreeAxesOverOneDim) {
  const Mesh mesh({{"a", 2}, {"b", 2}, {"c", 2}});
  const Shape whole{16, 1};
  const std::vector<Layout> layouts = all_layouts(
      whole, mesh, {{}, Placement::split(0), Placement::split(0, 1, 2), Placement::split(0, 1, 4)});
  EXPECT_GT(layouts.size(), 30u);
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      leads_there(from, to, whole, mesh);
      ASSERT_FALSE(HasFailure());
    }
  }
}

std::string described(const char* from, const char* to) {
  const Mesh mesh({{"data", 2}, {"tensor", 2}});
  const auto path = changes(parse_layout(from, mesh), parse_layout(to, mesh), {8, 8}, mesh);
  std::string text;
  for (const Change& change : path.value()) {
    text += std::string(text.empty() ? "" : " ") + std::string(name(change.kind)) + ":" +
            mesh.axes()[change.axis].name;
  }
  return text;
}

TEST(Change, TheTable) {
  EXPECT_EQ(described("{data:0}", "{data:0}"), "");
  EXPECT_EQ(described("{data:sum}", "{}"), "all_reduce:data");
  EXPECT_EQ(described("{data:sum}", "{data:0}"), "reduce_scatter:data");
  EXPECT_EQ(described("{data:0}", "{}"), "all_gather:data");
  EXPECT_EQ(described("{data:0}", "{data:1}"), "all_to_all:data");
  EXPECT_EQ(described("{}", "{data:0}"), "slice:data");
}

TEST(Change, ZeroOverDataInsideTensorTouchesDataAlone) {
  EXPECT_EQ(described("{data:sum tensor:0}", "{data:0 tensor:0}"), "reduce_scatter:data");
  EXPECT_EQ(described("{data:0 tensor:0}", "{tensor:0}"), "all_gather:data");
  // The outer cut cannot change under the inner one.
  EXPECT_EQ(described("{data:0 tensor:0}", "{data:0}"), "all_gather:data all_gather:tensor slice:data");
}

TEST(Change, ShrinksBeforeItGrows) {
  EXPECT_EQ(described("{data:0 tensor:sum}", "{tensor:1}"), "reduce_scatter:tensor all_gather:data");
}

TEST(Change, BytesAreThoseOfTheBestAlgorithm) {
  const Mesh mesh({{"data", 4}});
  const TensorType type{DType::f32, {8, 100}};
  const auto bytes = [&](const char* from, const char* to) {
    const Layout start = parse_layout(from, mesh);
    return bytes_sent(*changes(start, parse_layout(to, mesh), type.shape, mesh), type, start, mesh);
  };
  EXPECT_EQ(bytes("{data:sum}", "{}"), 2 * 0.75 * 3200);
  EXPECT_EQ(bytes("{data:sum}", "{data:0}"), 0.75 * 3200);
  EXPECT_EQ(bytes("{data:0}", "{}"), 0.75 * 3200);
  EXPECT_EQ(bytes("{data:0}", "{data:1}"), 0.75 * 800);
  EXPECT_EQ(bytes("{}", "{data:1}"), 0);
}

}  // namespace
}  // namespace trireme

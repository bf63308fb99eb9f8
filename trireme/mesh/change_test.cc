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

// Every layout that a tensor of this shape may have, in normal form.
std::vector<Layout> all_layouts(const Shape& whole, const Mesh& mesh) {
  const std::vector<Placement> placements = {{},
                                             Placement::split(0),
                                             Placement::split(1),
                                             Placement::split(0, 3),
                                             Placement::sum(),
                                             Placement::max()};
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

TEST(Change, EveryChangeLeadsWhereItSays) {
  const Mesh mesh({{"data", 2}, {"tensor", 3}});
  const Shape whole{12, 5};
  int carried_out = 0;
  for (const Layout& from : all_layouts(whole, mesh)) {
    for (const Layout& to : all_layouts(whole, mesh)) {
      // A sum of maxima is no maximum of sums: such values do not occur.
      if (from[0].is_partial() && from[1].is_partial() && from[0].kind != from[1].kind) continue;
      const auto path = changes(from, to);
      bool possible = true;
      for (size_t a = 0; a < to.size(); ++a) {
        possible &= to[a].kind != Placement::Kind::kMax || to[a] == from[a];
        possible &= to[a].kind != Placement::Kind::kSum || from[a].kind != Placement::Kind::kMax;
      }
      ASSERT_EQ(path.has_value(), possible) << to_string(from, mesh) << " to " << to_string(to, mesh);
      if (!path) continue;
      Held held = hold(whole, from, mesh);
      Layout now = from;
      for (const Change& change : *path) {
        now = after(now, change);
        held = carry_out(held, change, whole, now, mesh);
      }
      ASSERT_EQ(now, to);
      const Held wanted = hold(whole, to, mesh);
      for (int rank = 0; rank < mesh.ranks(); ++rank) {
        if (std::ranges::any_of(*path, [](const Change& c) { return c.kind == Change::Kind::kAddend; }))
          break;
        ASSERT_EQ(held.values[rank].size(), wanted.values[rank].size());
        for (size_t i = 0; i < wanted.values[rank].size(); ++i) {
          ASSERT_NEAR(held.values[rank][i], wanted.values[rank][i], 1e-9)
              << to_string(from, mesh) << " to " << to_string(to, mesh) << " on rank " << rank;
        }
      }
      ++carried_out;
    }
  }
  EXPECT_GT(carried_out, 300);
}

std::string described(const char* from, const char* to) {
  const Mesh mesh({{"data", 2}, {"tensor", 2}});
  const auto path = changes(parse_layout(from, mesh), parse_layout(to, mesh));
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
    return bytes_sent(*changes(start, parse_layout(to, mesh)), type, start, mesh);
  };
  EXPECT_EQ(bytes("{data:sum}", "{}"), 2 * 0.75 * 3200);
  EXPECT_EQ(bytes("{data:sum}", "{data:0}"), 0.75 * 3200);
  EXPECT_EQ(bytes("{data:0}", "{}"), 0.75 * 3200);
  EXPECT_EQ(bytes("{data:0}", "{data:1}"), 0.75 * 800);
  EXPECT_EQ(bytes("{}", "{data:1}"), 0);
}

}  // namespace
}  // namespace trireme

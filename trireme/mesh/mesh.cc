// Numbering of ranks on the grid, and its text form.
#include "trireme/mesh/mesh.h"

#include <algorithm>
#include <charconv>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Every rank is looked at one by one somewhere, and more than so many are a slip of the pen.
constexpr int64_t kMostRanks = 1 << 20;

}  // namespace

Mesh::Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {
  int64_t ranks = 1;
  for (size_t a = 0; a < axes_.size(); ++a) {
    const Axis& axis = axes_[a];
    if (!is_identifier(axis.name)) {
      throw_error("mesh: axis '{}' has no usable name; small letters, digits and _ expected", axis.name);
    }
    if (axis.size < 1) throw_error("mesh: axis {} has size {}; 1 or more expected", axis.name, axis.size);
    if (find(axis.name) != static_cast<int>(a)) throw_error("mesh: axis {} is named twice", axis.name);
    ranks *= axis.size;
    if (ranks > kMostRanks)
      throw_error("mesh: {} ranks with axis {}:{}; at most {} expected", ranks, axis.name, axis.size,
                  kMostRanks);
  }
  ranks_ = static_cast<int>(ranks);
}

int Mesh::find(std::string_view axis) const {
  const auto found = std::ranges::find(axes_, axis, &Axis::name);
  return found == axes_.end() ? -1 : static_cast<int>(found - axes_.begin());
}

int Mesh::axis(std::string_view axis) const {
  const int found = find(axis);
  if (found >= 0) return found;
  std::vector<std::string> names;
  for (const Axis& known : axes_) names.push_back(known.name);
  const std::string near = nearest(axis, names);
  throw_error("mesh has no axis '{}'; its axes are '{}'{}", axis, to_string(*this),
              near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

int Mesh::coordinate(int rank, int axis) const {
  TRIREME_CHECK(rank >= 0);
  TRIREME_CHECK(rank < ranks_);
  int stride = 1;
  for (size_t a = axes_.size() - 1; a > static_cast<size_t>(axis); --a) stride *= axes_[a].size;
  return rank / stride % axes_[axis].size;
}

int Mesh::rank_at(const std::vector<int>& coordinates) const {
  TRIREME_CHECK(coordinates.size() == axes_.size());
  int rank = 0;
  for (size_t a = 0; a < axes_.size(); ++a) rank = rank * axes_[a].size + coordinates[a];
  return rank;
}

std::vector<int> Mesh::members(int rank, int axis) const {
  std::vector<int> coordinates;
  for (size_t a = 0; a < axes_.size(); ++a) coordinates.push_back(coordinate(rank, static_cast<int>(a)));
  std::vector<int> result;
  for (int i = 0; i < axes_[axis].size; ++i) {
    coordinates[axis] = i;
    result.push_back(rank_at(coordinates));
  }
  return result;
}

std::string to_string(const Mesh& mesh) {
  std::string text;
  for (const Axis& axis : mesh.axes())
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", axis.name, axis.size);
  return text;
}

Mesh parse_mesh(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, ',', ' ');
  std::vector<Axis> axes;
  for (const std::string& word : split(spaced, ' ')) {
    if (word.empty()) continue;
    const size_t colon = word.find(':');
    int size = 0;
    const char* end = word.data() + word.size();
    if (colon == std::string::npos || std::from_chars(word.data() + colon + 1, end, size).ptr != end ||
        size < 1) {
      throw_error("mesh: '{}' found, an axis with its size expected, such as data:4", word);
    }
    axes.push_back({word.substr(0, colon), size});
  }
  return Mesh(std::move(axes));
}

std::string_view replica_axis(const Mesh& mesh) {
  const int axis = mesh.find(kReplicaAxis);
  return axis >= 0 && mesh.axes()[axis].size > 1 ? kReplicaAxis : kDataAxis;
}

int replicas_of(const Mesh& mesh) {
  const int axis = mesh.find(replica_axis(mesh));
  return axis < 0 ? 1 : mesh.axes()[axis].size;
}

int replica_of(const Mesh& mesh, int rank) {
  const int axis = mesh.find(replica_axis(mesh));
  return axis < 0 ? 0 : mesh.coordinate(rank, axis);
}

}  // namespace trireme

// Mesh: the ranks of a job as a grid with named axes, e.g. pipe:2 data:4 tensor:8. Ranks are numbered
// row-major, so neighbours along the last axis have neighbouring numbers: the innermost axis lies on the
// fastest links.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct Axis {
  std::string name;
  int size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

// The axis of a pipeline's stages. Its ranks do different things, where those along other axes do the same
// with different parts; so layouts do not speak of it.
inline constexpr std::string_view kPipeAxis = "pipe";
// Along both, ranks have the same weights and different rows of a batch. Those along data are near to one
// another, and ZeRO splits states over them; those along replica are hosts or sites, between which gradients
// alone are added up, or weights agreed on.
inline constexpr std::string_view kDataAxis = "data", kReplicaAxis = "replica";

class Mesh {
 public:
  Mesh() = default;  // one rank, no axes
  // Throws Error for a name that is no identifier or comes twice, and for a size below 1.
  explicit Mesh(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  int ranks() const { return ranks_; }
  int find(std::string_view axis) const;  // −1 when there is none
  int axis(std::string_view axis) const;  // an Error with the nearest name when there is none

  int coordinate(int rank, int axis) const;
  int rank_at(const std::vector<int>& coordinates) const;
  // The ranks that differ from `rank` along `axis` alone, in the order of that axis.
  std::vector<int> members(int rank, int axis) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::vector<Axis> axes_;
  int ranks_ = 1;
};

// "data:4 tensor:2"; "" for one rank. parse_mesh reads what to_string writes; commas serve as well as spaces.
std::string to_string(const Mesh& mesh);
Mesh parse_mesh(std::string_view text);

// The axis along which replicas agree (plan/agreement.h): replica where several ranks are along it, else
// data.
std::string_view replica_axis(const Mesh& mesh);
// How many ranks are along it, 1 where there is no such axis; and the place of a rank.
int replicas_of(const Mesh& mesh);
int replica_of(const Mesh& mesh, int rank);

}  // namespace trireme

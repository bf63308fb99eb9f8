// Where the ranks of a mesh run: which device each has, and by which links ranks reach one another. The axis
// tensor is laid on neighbouring devices, so that it stays inside a host where a host has enough of them;
// replica is laid outermost, then pipe, and the others keep their order between the two and tensor. Groups of
// axes see links from here alone.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/mesh/cluster.h"
#include "trireme/mesh/mesh.h"

namespace trireme {

// How far apart two ranks are.
enum class Reach { kInside, kAcross, kSpine };  // one host; hosts of one leaf; hosts of two
std::string_view name(Reach reach);             // "inside"

// A way between two ranks when all devices of their hosts use it at once.
struct Path {
  Reach reach = Reach::kInside;
  double alpha_seconds = 0;
  double beta_seconds_per_byte = 0;
  double gamma_seconds_per_byte = 0;
  double slowdown = 0;
  double all_reduce_beta_seconds_per_byte = 0;  // where switches add; 0: they do not

  friend bool operator==(const Path&, const Path&) = default;
};

class DeviceMap {
 public:
  // Both must outlive it. Throws Error when the cluster has fewer devices than the mesh ranks.
  DeviceMap(const Mesh& mesh, const Cluster& cluster);
  DeviceMap(const Mesh& mesh, Cluster&& cluster) = delete;

  const Mesh& mesh() const { return mesh_; }
  const Cluster& cluster() const { return cluster_; }
  int host(int rank) const { return places_[rank].host; }
  const DeviceClass& device(int rank) const { return *places_[rank].device; }
  // Where a rank is, as far as paths depend on it: two pairs of ranks that are as far apart, on hosts of the
  // same classes, have the same path.
  int leaf(int rank) const;
  const HostClass& host_class(int rank) const { return *places_[rank].of; }

  // Cards are shared by the devices of a host, leaves by hosts: what is left of them to one device is what a
  // path has.
  Path path(int from, int to) const;

  // Whether all ranks that differ from one another along other axes than pipe see the same: devices of one
  // class, and along each axis hosts that lie alike. One of them can then stand for all.
  bool is_symmetric() const;

 private:
  struct Place {
    int host = 0;
    const DeviceClass* device = nullptr;
    const HostClass* of = nullptr;
  };
  struct Seat {
    int host = 0, leaf = 0;  // numbered within a group
    const HostClass* of = nullptr;

    friend bool operator==(const Seat&, const Seat&) = default;
  };
  std::vector<Seat> pattern(const std::vector<int>& members) const;

  const Mesh& mesh_;
  const Cluster& cluster_;
  std::vector<Place> places_;  // by rank
};

}  // namespace trireme

// Ranks to devices, and what lies between them.
#include "trireme/mesh/device_map.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// The number of a rank when the axes are nested from replica and pipe, outermost, to tensor.
std::vector<int> order_of_axes(const Mesh& mesh) {
  std::vector<int> order;
  for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis) order.push_back(axis);
  const auto depth = [&](int axis) {
    const std::string& name = mesh.axes()[axis].name;
    return name == kReplicaAxis ? 0 : name == kPipeAxis ? 1 : name == "tensor" ? 3 : 2;
  };
  std::ranges::stable_sort(order, {}, depth);
  return order;
}

}  // namespace

std::string_view name(Reach reach) {
  constexpr std::string_view names[] = {"inside", "across", "spine"};
  return names[static_cast<int>(reach)];
}

DeviceMap::DeviceMap(const Mesh& mesh, const Cluster& cluster) : mesh_(mesh), cluster_(cluster) {
  std::vector<Place> devices;
  int host = 0;
  for (const HostClass& of : cluster.hosts) {
    for (int i = 0; i < of.count; ++i, ++host) {
      for (int d = 0; d < of.devices; ++d) devices.push_back({host, &cluster.device_class(of.device), &of});
    }
  }
  if (std::ssize(devices) < mesh.ranks())
    throw_error(
        "the mesh '{}' has {} ranks, but the cluster '{}' has {} devices on {} hosts, {} too few; make the "
        "mesh smaller, or the cluster larger (--hosts)",
        to_string(mesh), mesh.ranks(), cluster.name, devices.size(), host,
        mesh.ranks() - static_cast<int>(devices.size()));
  const std::vector<int> order = order_of_axes(mesh);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    size_t number = 0;
    for (const int axis : order)
      number = number * static_cast<size_t>(mesh.axes()[axis].size) +
               static_cast<size_t>(mesh.coordinate(rank, axis));
    places_.push_back(devices[number]);
  }
}

int DeviceMap::leaf(int rank) const {
  return cluster_.hosts_per_leaf > 0 ? places_[rank].host / cluster_.hosts_per_leaf : 0;
}

Path DeviceMap::path(int from, int to) const {
  const Place &a = places_[from], &b = places_[to];
  if (a.host == b.host) {
    if (a.of->inside.empty()) return {};
    const LinkClass& link = cluster_.link(a.of->inside);
    return {Reach::kInside,
            link.mean_alpha_seconds(),
            1 / link.mean_bytes_per_second(),
            link.gamma_seconds_per_byte,
            link.slowdown,
            link.all_reduce_bytes_per_second > 0 ? 1 / link.all_reduce_bytes_per_second : 0};
  }
  const bool spine = leaf(from) != leaf(to);
  Path path{spine ? Reach::kSpine : Reach::kAcross};
  for (const Place* end : {&a, &b}) {
    const LinkClass& link = cluster_.link(end->of->across);
    const double share = std::min(1.0, static_cast<double>(end->of->cards) / end->of->devices);
    const double beta = (spine ? cluster_.oversubscription : 1) / (link.mean_bytes_per_second() * share);
    path.alpha_seconds = std::max(path.alpha_seconds, link.mean_alpha_seconds());
    path.beta_seconds_per_byte = std::max(path.beta_seconds_per_byte, beta);
    path.gamma_seconds_per_byte = std::max(path.gamma_seconds_per_byte, link.gamma_seconds_per_byte);
    path.slowdown = std::max(path.slowdown, link.slowdown);
  }
  return path;
}

// All that paths between the members of a group depend on: their hosts and leaves, numbered as the group
// meets them, and the classes of their hosts. Groups whose hosts are other ones, but lie alike, have the
// same.
std::vector<DeviceMap::Seat> DeviceMap::pattern(const std::vector<int>& members) const {
  std::vector<Seat> result;
  std::map<int, int> hosts, leaves;
  const auto number = [](std::map<int, int>& numbers, int of) {
    return numbers.try_emplace(of, static_cast<int>(numbers.size())).first->second;
  };
  for (const int member : members)
    result.push_back({number(hosts, host(member)), number(leaves, leaf(member)), places_[member].of});
  return result;
}

// Members of a group see the same, so that each group is looked at once: there may be thousands of ranks.
bool DeviceMap::is_symmetric() const {
  const int pipe = mesh_.find(kPipeAxis);
  const auto stage_of = [&](int rank) { return pipe < 0 ? 0 : mesh_.coordinate(rank, pipe); };
  std::map<int, const DeviceClass*> devices;  // by stage
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const DeviceClass* const here = places_[rank].device;
    if (devices.try_emplace(stage_of(rank), here).first->second != here) return false;
  }
  for (int axis = 0; axis < static_cast<int>(mesh_.axes().size()); ++axis) {
    std::map<int, std::vector<Seat>> patterns;  // by stage
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      if (mesh_.coordinate(rank, axis) != 0) continue;
      std::vector<Seat> here = pattern(mesh_.members(rank, axis));
      const auto [entry, fresh] = patterns.try_emplace(axis == pipe ? 0 : stage_of(rank), here);
      if (!fresh && entry->second != here) return false;
    }
  }
  return true;
}

}  // namespace trireme

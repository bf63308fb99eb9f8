// What is asked of a cluster, and what must hold of one.
#include "trireme/mesh/cluster.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

// Between which two points `x` lies, and how far from the first to the second, on a logarithmic scale.
struct Between {
  size_t below = 0, above = 0;
  double share = 0;
};

Between between(const std::vector<double>& points, double x) {
  const auto above = std::ranges::lower_bound(points, x);
  if (above == points.begin()) return {};
  if (above == points.end()) return {points.size() - 1, points.size() - 1, 0};
  const size_t i = static_cast<size_t>(above - points.begin());
  return {i - 1, i, std::log(x / points[i - 1]) / std::log(points[i] / points[i - 1])};
}

template <typename T>
std::vector<std::string> names_of(const std::vector<T>& all) {
  std::vector<std::string> names;
  for (const T& one : all) names.push_back(one.name);
  return names;
}

// Where one thing speaks of another by its name.
template <typename T>
void expect_known(std::string_view origin, std::string_view who, std::string_view what,
                  const std::string& name, const std::vector<T>& all) {
  const std::vector<std::string> known = names_of(all);
  if (std::ranges::find(known, name) != known.end()) return;
  throw_error("{}: {} names the {} '{}', which the file does not describe; {}", origin, who, what, name,
              known.empty() ? fmt::format("it describes none: add [[{}]] with name = \"{}\"", what, name)
                            : suggestion(name, known));
}

template <typename T>
void expect_distinct(std::string_view origin, std::string_view what, const std::vector<T>& all) {
  std::vector<std::string> names = names_of(all);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    throw_error("{}: two [[{}]] have the name '{}'; give each its own", origin, what, *twice);
}

void expect_positive(std::string_view origin, const std::string& what, double value) {
  if (!(value > 0) || !std::isfinite(value))
    throw_error("{}: {} is {}; more than 0 expected", origin, what, value);
}

void check_device(const DeviceClass& device, std::string_view origin) {
  const std::string what = fmt::format("device '{}'", device.name);
  expect_positive(origin, what + ": memory_bytes", device.memory_bytes);
  if (device.bandwidth.empty()) throw_error("{}: {} has no bytes_per_second", origin, what);
  for (const BandwidthPoint& point : device.bandwidth)
    expect_positive(origin, what + ": bytes_per_second", point.bytes_per_second);
  if (device.flops_per_second.empty())
    throw_error("{}: {} has no flops_per_second; expected f32, and others that it is fast in", origin, what);
  for (const auto& [dtype, rate] : device.flops_per_second)
    expect_positive(origin, fmt::format("{}: flops_per_second.{}", what, name(dtype)), rate);
  if (device.tf32_flops_per_second != 0)
    expect_positive(origin, what + ": flops_per_second.tf32", device.tf32_flops_per_second);
  const ProductGrid& grid = device.products;
  const size_t points = grid.m.size() * grid.n.size() * grid.k.size();
  if (points == 0 || grid.efficiency.size() != points)
    throw_error("{}: {}: products has {} efficiencies; {} x {} x {} = {} expected, for every m, n and k",
                origin, what, grid.efficiency.size(), grid.m.size(), grid.n.size(), grid.k.size(), points);
  for (const std::vector<double>* extents : {&grid.m, &grid.n, &grid.k}) {
    for (const double extent : *extents) expect_positive(origin, what + ": an extent of products", extent);
    if (std::ranges::adjacent_find(*extents, std::greater_equal()) != extents->end())
      throw_error("{}: {}: extents of products do not ascend", origin, what);
  }
  for (const double share : grid.efficiency) expect_positive(origin, what + ": an efficiency", share);
  for (const auto& [op, share] : device.ops) {
    for (const SharePoint& point : share.points()) expect_positive(origin, what + ": ops." + op, point.share);
    if (share.points().size() > 1)
      expect_positive(origin, what + ": the first size of ops." + op, share.points()[0].roofline_seconds);
  }
}

void check_host(const HostClass& host, const Cluster& cluster, std::string_view origin) {
  expect_known(origin, "a [[host]]", "device", host.device, cluster.devices);
  const std::string who = fmt::format("the host of '{}'", host.device);
  if (host.devices < 1 || host.count < 1)
    throw_error(
        "{}: {} has {} devices and count {}; at least 1 of each expected: take it away, or say how many",
        origin, who, host.devices, host.count);
  if (host.devices > 1 && host.inside.empty())
    throw_error("{}: {} has {} devices and no link between them; set inside = \"…\" to one of [[link]]",
                origin, who, host.devices);
  if (cluster.host_count() > 1 && host.across.empty())
    throw_error("{}: there are {} hosts, and {} has no link to others; set across = \"…\" to one of [[link]]",
                origin, cluster.host_count(), who);
  if (host.cards < 1) throw_error("{}: {} has {} network cards; 1 or more expected", origin, who, host.cards);
  for (const std::string* link : {&host.inside, &host.across}) {
    if (!link->empty()) expect_known(origin, who, "link", *link, cluster.links);
  }
}

// Every device is looked at one by one somewhere, and more than so many are a slip of the pen.
void check_size(const Cluster& cluster, std::string_view origin) {
  constexpr double kMost = 1 << 20;
  double devices = 0;
  for (const HostClass& host : cluster.hosts)
    devices += static_cast<double>(host.count) * static_cast<double>(host.devices);
  if (devices > kMost)
    throw_error("{}: the cluster has {} devices (count times devices of each [[host]]); at most {} expected",
                origin, devices, kMost);
}

}  // namespace

double ProductGrid::at(double rows, double columns, double depth) const {
  const Between a = between(m, rows), b = between(n, columns), c = between(k, depth);
  double sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    const auto side = [&](const Between& axis, int bit) {
      return corner >> bit & 1 ? std::pair(axis.above, axis.share) : std::pair(axis.below, 1 - axis.share);
    };
    const auto [i, in_m] = side(a, 0);
    const auto [j, in_n] = side(b, 1);
    const auto [l, in_k] = side(c, 2);
    sum += in_m * in_n * in_k * efficiency[(i * n.size() + j) * k.size() + l];
  }
  return sum;
}

double OpShare::at(double roofline_seconds) const {
  if (points_.size() == 1 || roofline_seconds <= 0) return points_.front().share;
  const auto above = std::ranges::upper_bound(points_, roofline_seconds, {}, &SharePoint::roofline_seconds);
  if (above == points_.end()) return points_.back().share;
  const auto seconds_of = [](const SharePoint& point) { return point.roofline_seconds / point.share; };
  const SharePoint& from = above == points_.begin() ? *above : above[-1];
  const SharePoint& to = above == points_.begin() ? above[1] : *above;
  double slope = (seconds_of(to) - seconds_of(from)) / (to.roofline_seconds - from.roofline_seconds);
  if (above == points_.begin()) slope = std::clamp(slope, 0.0, 1 / from.share);
  return roofline_seconds / (seconds_of(from) + slope * (roofline_seconds - from.roofline_seconds));
}

double DeviceClass::bytes_per_second(double bytes) const {
  std::vector<double> sizes;
  for (const BandwidthPoint& point : bandwidth) sizes.push_back(point.bytes);
  const Between at = between(sizes, bytes);
  return (1 - at.share) * bandwidth[at.below].bytes_per_second +
         at.share * bandwidth[at.above].bytes_per_second;
}

double DeviceClass::peak(DType dtype) const {
  // Who has hardware for f16 and says nothing of bf16 has none for it: f32's rate would be a guess.
  if (dtype == DType::bf16 && !flops_per_second.contains(dtype) && flops_per_second.contains(DType::f16))
    throw_error(
        "the device class '{}' has a peak for f16 and none for bf16; choose --train.precision=f16, or add "
        "bf16 to its flops_per_second",
        name);
  for (const DType wanted : {dtype, DType::f32}) {
    if (const auto found = flops_per_second.find(wanted); found != flops_per_second.end())
      return found->second;
  }
  throw_error("the device class '{}' has no peak for {}, nor for f32; add it to its flops_per_second", name,
              trireme::name(dtype));
}

int Cluster::device_count() const {
  int count = 0;
  for (const HostClass& host : hosts) count += host.count * host.devices;
  return count;
}

int Cluster::host_count() const {
  int count = 0;
  for (const HostClass& host : hosts) count += host.count;
  return count;
}

const DeviceClass& Cluster::device_class(std::string_view wanted) const {
  const auto found = std::ranges::find(devices, wanted, &DeviceClass::name);
  TRIREME_CHECK(found != devices.end());
  return *found;
}

const LinkClass& Cluster::link(std::string_view wanted) const {
  const auto found = std::ranges::find(links, wanted, &LinkClass::name);
  TRIREME_CHECK(found != links.end());
  return *found;
}

void check(const Cluster& cluster, std::string_view origin) {
  expect_distinct(origin, "device", cluster.devices);
  expect_distinct(origin, "link", cluster.links);
  for (const DeviceClass& device : cluster.devices) check_device(device, origin);
  for (const LinkClass& link : cluster.links) {
    expect_positive(origin, fmt::format("link '{}': bytes_per_second", link.name), link.bytes_per_second);
    if (link.all_reduce_bytes_per_second != 0)
      expect_positive(origin, fmt::format("link '{}': all_reduce_bytes_per_second", link.name),
                      link.all_reduce_bytes_per_second);
    if (!(link.loss >= 0 && link.loss < 1))
      throw_error("{}: link '{}': loss is {}; a share of its messages is expected, from 0 to below 1", origin,
                  link.name, link.loss);
  }
  if (cluster.hosts.empty())
    throw_error("{}: the cluster has no devices; add a [[host]] with a device, devices and count", origin);
  check_size(cluster, origin);
  for (const HostClass& host : cluster.hosts) check_host(host, cluster, origin);
  expect_positive(origin, "oversubscription", cluster.oversubscription);
}

Cluster with_hosts(Cluster cluster, int count) {
  if (cluster.hosts.size() != 1)
    throw_error("the cluster '{}' has {} classes of hosts; say in its file how many there are of each",
                cluster.name, cluster.hosts.size());
  cluster.hosts[0].count = count;
  check(cluster, cluster.name);
  return cluster;
}

Cluster with_tf32(Cluster cluster) {
  for (DeviceClass& device : cluster.devices) {
    if (device.tf32_flops_per_second <= 0)
      throw_error(
          "the device class '{}' has no peak for TF32; add tf32 to its flops_per_second, or leave out "
          "--train.tf32",
          device.name);
    device.flops_per_second[DType::f32] = device.tf32_flops_per_second;
  }
  return cluster;
}

Cluster with_devices(Cluster cluster, int ranks) {
  const int devices = cluster.device_count();
  if (ranks == devices) return cluster;
  if (ranks > devices)
    throw_error("the cluster '{}' has {} devices, too few for {} ranks; one with as many is needed",
                cluster.name, devices, ranks);
  const int of_host = cluster.hosts[0].devices;
  if (ranks > of_host && ranks % of_host != 0)
    throw_error("{} ranks would use hosts of the cluster '{}' in part: they have {} devices each", ranks,
                cluster.name, of_host);
  cluster = with_hosts(std::move(cluster), std::max(1, ranks / of_host));
  cluster.hosts[0].devices = std::min(ranks, of_host);
  return cluster;
}

}  // namespace trireme

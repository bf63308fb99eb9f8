// Cluster: the machines that a job runs on, as numbers. Device classes, hosts of them, the links inside hosts
// and between them, prices and power. A file in TOML (cluster_file.h); docs/simulator.md has all keys.
// Nothing here is about this machine, so that a laptop can reckon with a cluster.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"

namespace trireme {

// What share of its peak a device reaches in a product of [m, k] by [k, n]: measured at the points of a grid,
// and between them by lines over the logarithms of the extents. Beyond its ends the grid goes on level.
struct ProductGrid {
  std::vector<double> m = {1}, n = {1}, k = {1};  // ascending
  std::vector<double> efficiency = {1};           // of (m, n, k), the last the fastest

  double at(double rows, double columns, double depth) const;
  friend bool operator==(const ProductGrid&, const ProductGrid&) = default;
};

// Bytes a second against the bytes that an op touches: small ones may stay in a cache. Level beyond the ends.
struct BandwidthPoint {
  double bytes = 0;
  double bytes_per_second = 0;
  friend bool operator==(const BandwidthPoint&, const BandwidthPoint&) = default;
};

// What an op reaches of the roofline, against what a launch of it takes by the roofline: kernels take a while
// until they have begun, and other sizes have other kernels.
struct SharePoint {
  double roofline_seconds = 0;
  double share = 1;
  friend bool operator==(const SharePoint&, const SharePoint&) = default;
};
class OpShare {
 public:
  // Of launches of any size: of the efficiency that products of theirs have, and of memory.
  OpShare(double share) : points_{{0, share}} {}
  // Measured by size, ascending, at least one: of the peak, and of memory. Between points the time is a line;
  // below them it falls as between the first two, but neither rises nor falls faster than the work; above
  // them the last share holds.
  explicit OpShare(std::vector<SharePoint> points) : points_(std::move(points)) {}

  bool is_by_size() const { return points_.front().roofline_seconds > 0; }
  const std::vector<SharePoint>& points() const { return points_; }
  double at(double roofline_seconds) const;

  friend bool operator==(const OpShare&, const OpShare&) = default;

 private:
  std::vector<SharePoint> points_;
};

struct DeviceClass {
  std::string name;
  // Who asks how much temporary memory kernels want has to know which ones: "cpu", "cuda".
  std::string kind = "cuda";
  double memory_bytes = 0;
  std::vector<BandwidthPoint> bandwidth;            // bytes ascending; at least one
  std::map<DType, double> flops_per_second;         // peak, by number format
  double tf32_flops_per_second = 0;                 // of f32 products with factors in TF32; 0: not known
  ProductGrid products;                             // share of the peak
  std::map<std::string, OpShare, std::less<>> ops;  // by op: share of the roofline; others 1
  double launch_seconds = 0;                        // that a node takes at least, on the device
  // Ops of which it does several that follow one another at once, by one launch.
  std::set<std::string, std::less<>> at_once;
  double issue_seconds = 0;  // that the host is busy with a node
  // By which states that a plan offloads come to the device and go from it, one way at a time; 0: not known.
  double offload_bytes_per_second = 0;
  double price_per_hour = 0, watts = 0;  // of one device; 0: not known

  double bytes_per_second(double bytes) const;
  double peak(DType dtype) const;  // of the format, else of f32; an Error where there is neither

  friend bool operator==(const DeviceClass&, const DeviceClass&) = default;
};

// One device's or card's way to its switch, in each direction.
struct LinkClass {
  std::string name;
  double alpha_seconds = 0;
  double bytes_per_second = 0;
  // Bus bandwidth of an all_reduce inside a host whose switches add (NVLS); 0: they do not.
  double all_reduce_bytes_per_second = 0;
  double gamma_seconds_per_byte = 0;  // of adding a byte that has come
  // What collectives on this link take of the device's speed while they run beside its work.
  double slowdown = 0;
  // The share of messages that are lost, and after how long one is sent again.
  double loss = 0, resend_seconds = 0;

  // A message of n bytes takes alpha + n / rate on average, with what is sent again.
  double mean_alpha_seconds() const {
    return alpha_seconds + loss / (1 - loss) * (alpha_seconds + resend_seconds);
  }
  double mean_bytes_per_second() const { return bytes_per_second * (1 - loss); }

  friend bool operator==(const LinkClass&, const LinkClass&) = default;
};

// `count` hosts that are alike.
struct HostClass {
  std::string device;  // of which class its devices are
  int devices = 1;
  int count = 1;
  std::string inside;  // the link between its devices; "" where it has one
  std::string across;  // that of its network cards; "" where there is one host
  int cards = 1;       // which its devices share evenly
  // Whether collectives over several hosts are inside and across at the same time, piece by piece, as NCCL's
  // are; otherwise one level follows the other.
  bool levels_at_once = false;

  friend bool operator==(const HostClass&, const HostClass&) = default;
};

struct Cluster {
  std::string name;
  std::string source;  // where the figures come from, for people
  std::vector<DeviceClass> devices;
  std::vector<HostClass> hosts;
  std::vector<LinkClass> links;
  int hosts_per_leaf = 0;       // 0: one switch has all
  double oversubscription = 1;  // of the leaves: what comes in from hosts, over what goes up

  int device_count() const;
  int host_count() const;
  const DeviceClass& device_class(std::string_view wanted) const;  // that check() has found to exist
  const LinkClass& link(std::string_view wanted) const;

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Throws Error for what can not be a cluster: no devices, a link or a class that nobody describes, a rate of
// zero. `origin` is the file that it came from.
void check(const Cluster& cluster, std::string_view origin);

// The same cluster with so many hosts, all of its one class. Throws Error where there are several.
Cluster with_hosts(Cluster cluster, int count);
// The same cluster whose devices multiply f32 as TF32. Throws Error where a class does not say how fast.
Cluster with_tf32(Cluster cluster);
// As much of it as so many ranks use, one on each device: whole hosts, or a part of one. Throws Error where
// it has too few devices, where hosts would be used unevenly, and as with_hosts() does.
Cluster with_devices(Cluster cluster, int ranks);

}  // namespace trireme

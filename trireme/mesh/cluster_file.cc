#include "trireme/mesh/cluster_file.h"

#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/text.h"
#include "trireme/mesh/toml_table.h"

namespace trireme {

// A number, for all sizes, or a list of pairs of which the first ascend.
template <typename Point>
static std::vector<Point> read_points(const TomlTable& table, const toml::node& node, std::string_view key,
                                      std::string_view pairs) {
  if (!node.is_array()) return {{0, table.number(node, key)}};
  std::vector<Point> result;
  double last = -1;
  for (const toml::node& item : *node.as_array()) {
    const std::vector<double> pair = table.numbers(item, key);
    if (pair.size() != 2 || pair[0] <= last)
      throw_error("{}: {} is a number, or pairs {} ascending", table.where(item), key, pairs);
    last = pair[0];
    result.push_back({pair[0], pair[1]});
  }
  if (result.empty()) table.refuse(node, key, "at least one pair");
  return result;
}

// TomlTable finds these two by their arguments, so they are not in the anonymous namespace.
static void read_toml(const TomlTable& table, const toml::node& node, std::string_view key,
                      std::vector<BandwidthPoint>& points) {
  points = read_points<BandwidthPoint>(table, node, key, "[bytes, bytes per second] with bytes");
}
static void read_toml(const TomlTable& table, const toml::node& node, std::string_view key,
                      std::map<std::string, OpShare, std::less<>>& shares) {
  for (const auto& [name, item] : table.table_of(node, key)) {
    shares.insert_or_assign(std::string(name.str()),
                            OpShare(read_points<SharePoint>(
                                table, item, name.str(), "[seconds by the roofline, share] with seconds")));
  }
}

namespace {

// A peak that is of no number format: f32 whose factors are rounded.
constexpr std::string_view kTf32 = "tf32";

// The plain keys of each table, in the order in which they are written. `visit` reads them or writes them;
// what is written is const.
template <typename Visit, typename Whole>
void cluster_keys(Visit& visit, Whole& cluster) {
  visit("name", cluster.name);
  visit("source", cluster.source);
  visit("hosts_per_leaf", cluster.hosts_per_leaf);
  visit("oversubscription", cluster.oversubscription);
}

template <typename Visit, typename Device>
void device_keys(Visit& visit, Device& device) {
  visit("name", device.name);
  visit("kind", device.kind);
  visit("memory_bytes", device.memory_bytes);
  visit("bytes_per_second", device.bandwidth);
  visit("launch_seconds", device.launch_seconds);
  visit("at_once", device.at_once);
  visit("issue_seconds", device.issue_seconds);
  visit("offload_bytes_per_second", device.offload_bytes_per_second);
  visit("price_per_hour", device.price_per_hour);
  visit("watts", device.watts);
}

template <typename Visit, typename Grid>
void product_keys(Visit& visit, Grid& grid) {
  visit("m", grid.m);
  visit("n", grid.n);
  visit("k", grid.k);
  visit("efficiency", grid.efficiency);
}

template <typename Visit, typename Link>
void link_keys(Visit& visit, Link& link) {
  visit("name", link.name);
  visit("alpha_seconds", link.alpha_seconds);
  visit("bytes_per_second", link.bytes_per_second);
  visit("all_reduce_bytes_per_second", link.all_reduce_bytes_per_second);
  visit("gamma_seconds_per_byte", link.gamma_seconds_per_byte);
  visit("slowdown", link.slowdown);
  visit("loss", link.loss);
  visit("resend_seconds", link.resend_seconds);
}

template <typename Visit, typename Host>
void host_keys(Visit& visit, Host& host) {
  visit("device", host.device);
  visit("devices", host.devices);
  visit("count", host.count);
  visit("inside", host.inside);
  visit("across", host.across);
  visit("cards", host.cards);
  visit("levels_at_once", host.levels_at_once);
}

DeviceClass read_device(TomlTable& table) {
  DeviceClass device;
  device_keys(table, device);
  table.each("flops_per_second", [&](const std::string& key, double rate, const toml::node& node) {
    if (key == kTf32) {
      device.tf32_flops_per_second = rate;
      return;
    }
    const auto dtype = parse_dtype(key);
    if (!dtype)
      throw_error("{}: flops_per_second has no number format '{}'; {}", table.where(node), key,
                  suggestion(key, std::vector<std::string>{"f64", "f32", "f16", "bf16", "i32", "u8",
                                                           std::string(kTf32)}));
    device.flops_per_second[*dtype] = rate;
  });
  table("ops", device.ops);
  table.table("products", [&](TomlTable& grid) { product_keys(grid, device.products); });
  return device;
}

// Values as TOML has them.
std::string value_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (control) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c == '"' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
    }
  }
  return result + '"';
}
std::string value_text(const BandwidthPoint& point) {
  return fmt::format("[{}, {}]", point.bytes, point.bytes_per_second);
}
std::string value_text(const SharePoint& point) {
  return fmt::format("[{}, {}]", point.roofline_seconds, point.share);
}
template <typename Value>
std::string value_text(const Value& value) {
  if constexpr (std::is_arithmetic_v<Value>) {
    return fmt::format("{}", value);
  } else {
    std::vector<std::string> parts;
    for (const auto& one : value) parts.push_back(value_text(one));
    return fmt::format("[{}]", join(parts, ", "));
  }
}
std::string value_text(const OpShare& share) {
  return share.is_by_size() ? value_text(share.points()) : value_text(share.points()[0].share);
}

struct Lines {
  std::string text;

  template <typename Value>
  void operator()(std::string_view key, const Value& value) {
    text += fmt::format("{} = {}\n", key, value_text(value));
  }
};

void write_device(Lines& lines, const DeviceClass& device) {
  lines.text += "[[device]]\n";
  device_keys(lines, device);
  lines.text += "[device.flops_per_second]\n";
  for (const auto& [dtype, rate] : device.flops_per_second) lines(name(dtype), rate);
  if (device.tf32_flops_per_second > 0) lines(kTf32, device.tf32_flops_per_second);
  lines.text += "[device.products]\n";
  product_keys(lines, device.products);
  lines.text += "[device.ops]\n";
  for (const auto& [op, share] : device.ops) lines(value_text(op), share);
}

}  // namespace

Cluster parse_cluster(std::string_view text, std::string_view origin) {
  const toml::table root = parse_toml(text, origin, "[[device]], [[host]] and [[link]] with their keys");
  Cluster cluster;
  TomlTable table(root, origin, "a cluster file");
  cluster_keys(table, cluster);
  table.tables("device", [&](TomlTable& one) { cluster.devices.push_back(read_device(one)); });
  table.tables("host", [&](TomlTable& one) { host_keys(one, cluster.hosts.emplace_back()); });
  table.tables("link", [&](TomlTable& one) { link_keys(one, cluster.links.emplace_back()); });
  table.finish();
  check(cluster, origin);
  return cluster;
}

Cluster read_cluster(const std::string& text) {
  if (const std::string shipped = shipped_cluster(text); !shipped.empty())
    return parse_cluster(shipped, text);
  if (!std::filesystem::exists(text)) {
    throw_error("there is no cluster file '{}', and none of this name comes with Trireme; {}", text,
                suggestion(text, shipped_clusters()));
  }
  constexpr size_t kMostBytes = size_t{1} << 24;
  return parse_cluster(read_input_file(text, kMostBytes, "a cluster, in TOML"), text);
}

std::string to_toml(const Cluster& cluster) {
  Lines lines;
  cluster_keys(lines, cluster);
  for (const DeviceClass& device : cluster.devices) {
    lines.text += "\n";
    write_device(lines, device);
  }
  for (const HostClass& host : cluster.hosts) {
    lines.text += "\n[[host]]\n";
    host_keys(lines, host);
  }
  for (const LinkClass& link : cluster.links) {
    lines.text += "\n[[link]]\n";
    link_keys(lines, link);
  }
  return lines.text;
}

}  // namespace trireme

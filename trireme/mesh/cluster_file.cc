// Strict reading: every key is asked for by somebody or refused, and every value has its line.
#include "trireme/mesh/cluster_file.h"

#include <toml++/toml.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

// A peak that is of no number format: f32 whose factors are rounded.
constexpr std::string_view kTf32 = "tf32";

std::string place(std::string_view origin, const toml::node& node) {
  return fmt::format("{}:{}", origin, node.source().begin.line);
}

// One table of the file. finish() refuses what nobody asked for.
class Table {
 public:
  Table(const toml::table& table, std::string_view origin, std::string what)
      : table_(table), origin_(origin), what_(std::move(what)) {}

  void operator()(std::string_view key, std::string& value) {
    if (const toml::node* node = find(key)) value = text(*node, key);
  }
  void operator()(std::string_view key, double& value) {
    if (const toml::node* node = find(key)) value = number(*node, key);
  }
  void operator()(std::string_view key, bool& value) {
    const toml::node* node = find(key);
    if (!node) return;
    if (!node->is_boolean()) refuse(*node, key, "true or false");
    value = node->as_boolean()->get();
  }
  void operator()(std::string_view key, int& value) {
    const toml::node* node = find(key);
    if (!node) return;
    const double read = number(*node, key);
    if (read != std::floor(read) || std::abs(read) > 1e9)
      throw_error("{}: {} is {}; a whole number expected", place(origin_, *node), key, read);
    value = static_cast<int>(read);
  }
  void operator()(std::string_view key, std::vector<double>& values) {
    if (const toml::node* node = find(key)) values = numbers(*node, key);
  }
  void operator()(std::string_view key, std::set<std::string, std::less<>>& names) {
    const toml::node* node = find(key);
    if (!node) return;
    const toml::array* array = node->as_array();
    if (!array) refuse(*node, key, "a list of names in quotes");
    for (const toml::node& item : *array) names.insert(text(item, key));
  }
  void operator()(std::string_view key, std::vector<BandwidthPoint>& points) {
    if (const toml::node* node = find(key))
      points = this->points<BandwidthPoint>(*node, key, "[bytes, bytes per second] with bytes");
  }
  // A table of shares.
  void operator()(std::string_view key, std::map<std::string, OpShare, std::less<>>& shares) {
    const toml::node* node = find(key);
    if (!node) return;
    for (const auto& [name, item] : table_of(*node, key))
      shares.insert_or_assign(
          std::string(name.str()),
          OpShare(points<SharePoint>(item, name.str(), "[seconds by the roofline, share] with seconds")));
  }
  // A table of numbers.
  template <typename Set>
  void each(std::string_view key, const Set& set) {
    const toml::node* node = find(key);
    if (!node) return;
    for (const auto& [name, item] : table_of(*node, key))
      set(std::string(name.str()), number(item, name.str()), item);
  }
  template <typename Read>
  void table(std::string_view key, const Read& read) {
    const toml::node* node = find(key);
    if (!node) return;
    Table inner(table_of(*node, key), origin_, fmt::format("{}.{}", what_, key));
    read(inner);
    inner.finish();
  }
  // An array of tables, [[key]].
  template <typename Read>
  void tables(std::string_view key, const Read& read) {
    const toml::node* node = find(key);
    if (!node) return;
    const toml::array* array = node->as_array();
    if (!array) throw_error("{}: '{}' is written [[{}]], one for each", place(origin_, *node), key, key);
    for (const toml::node& item : *array) {
      Table inner(table_of(item, key), origin_, fmt::format("[[{}]]", key));
      read(inner);
      inner.finish();
    }
  }

  void finish() {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (known_.contains(name)) continue;
      const std::vector<std::string> known(known_.begin(), known_.end());
      throw_error("{}: {} has no key '{}'; {}", place(origin_, node), what_, name, suggestion(name, known));
    }
  }
  std::string where(const toml::node& node) const { return place(origin_, node); }

 private:
  const toml::node* find(std::string_view key) {
    known_.insert(std::string(key));
    return table_.get(key);
  }
  [[noreturn]] void refuse(const toml::node& node, std::string_view key, std::string_view expected) const {
    std::ostringstream found;
    found << node.type();
    throw_error("{}: {} of {} is {}; {} expected", place(origin_, node), key, what_, found.str(), expected);
  }
  std::string text(const toml::node& node, std::string_view key) const {
    const auto value = node.value_exact<std::string>();
    if (!value) refuse(node, key, "a text in quotes");
    // Names are printed; what a terminal would obey is none.
    if (printable(*value) != *value)
      throw_error("{}: {} of {} has control characters; a text of printable ones expected",
                  place(origin_, node), key, what_);
    return *value;
  }
  double number(const toml::node& node, std::string_view key) const {
    const auto value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < 0) refuse(node, key, "a number, 0 or more,");
    return *value;
  }
  std::vector<double> numbers(const toml::node& node, std::string_view key) const {
    const toml::array* array = node.as_array();
    if (!array) refuse(node, key, "a list of numbers");
    std::vector<double> values;
    for (const toml::node& item : *array) values.push_back(number(item, key));
    return values;
  }
  // A number, for all sizes, or a list of pairs of which the first ascend.
  template <typename Point>
  std::vector<Point> points(const toml::node& node, std::string_view key, std::string_view pairs) const {
    if (!node.is_array()) return {{0, number(node, key)}};
    std::vector<Point> result;
    double last = -1;
    for (const toml::node& item : *node.as_array()) {
      const std::vector<double> pair = numbers(item, key);
      if (pair.size() != 2 || pair[0] <= last)
        throw_error("{}: {} is a number, or pairs {} ascending", place(origin_, item), key, pairs);
      last = pair[0];
      result.push_back({pair[0], pair[1]});
    }
    if (result.empty()) refuse(node, key, "at least one pair");
    return result;
  }
  const toml::table& table_of(const toml::node& node, std::string_view key) const {
    const toml::table* table = node.as_table();
    if (!table) refuse(node, key, "a table");
    return *table;
  }

  const toml::table& table_;
  std::string_view origin_;
  std::string what_;
  std::set<std::string> known_;
};

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

DeviceClass read_device(Table& table) {
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
  table.table("products", [&](Table& grid) { product_keys(grid, device.products); });
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
  check_toml_depth(text, origin, "[[device]], [[host]] and [[link]] with their keys");
  toml::table root;
  try {
    root = toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    throw_error("{}:{}: {}", origin, error.source().begin.line, error.description());
  }
  Cluster cluster;
  Table table(root, origin, "a cluster file");
  cluster_keys(table, cluster);
  table.tables("device", [&](Table& one) { cluster.devices.push_back(read_device(one)); });
  table.tables("host", [&](Table& one) { host_keys(one, cluster.hosts.emplace_back()); });
  table.tables("link", [&](Table& one) { link_keys(one, cluster.links.emplace_back()); });
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

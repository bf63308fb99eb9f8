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

  void read(std::string_view key, std::string& value) {
    if (const toml::node* node = find(key)) value = text(*node, key);
  }
  void read(std::string_view key, double& value) {
    if (const toml::node* node = find(key)) value = number(*node, key);
  }
  void read(std::string_view key, bool& value) {
    const toml::node* node = find(key);
    if (!node) return;
    if (!node->is_boolean()) refuse(*node, key, "true or false");
    value = node->as_boolean()->get();
  }
  void read(std::string_view key, int& value) {
    const toml::node* node = find(key);
    if (!node) return;
    const double read = number(*node, key);
    if (read != std::floor(read) || std::abs(read) > 1e9)
      throw_error("{}: {} is {}; a whole number expected", place(origin_, *node), key, read);
    value = static_cast<int>(read);
  }
  void read(std::string_view key, std::vector<double>& values) {
    if (const toml::node* node = find(key)) values = numbers(*node, key);
  }
  void read(std::string_view key, std::set<std::string, std::less<>>& names) {
    const toml::node* node = find(key);
    if (!node) return;
    const toml::array* array = node->as_array();
    if (!array) refuse(*node, key, "a list of names in quotes");
    for (const toml::node& item : *array) names.insert(text(item, key));
  }
  void read(std::string_view key, std::vector<BandwidthPoint>& points) {
    if (const toml::node* node = find(key))
      points = this->points<BandwidthPoint>(*node, key, "[bytes, bytes per second] with bytes");
  }
  // A table of shares.
  void read(std::string_view key, std::map<std::string, OpShare, std::less<>>& shares) {
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

DeviceClass read_device(Table& table) {
  DeviceClass device;
  table.read("name", device.name);
  table.read("kind", device.kind);
  table.read("memory_bytes", device.memory_bytes);
  table.read("bytes_per_second", device.bandwidth);
  table.read("launch_seconds", device.launch_seconds);
  table.read("at_once", device.at_once);
  table.read("issue_seconds", device.issue_seconds);
  table.read("offload_bytes_per_second", device.offload_bytes_per_second);
  table.read("price_per_hour", device.price_per_hour);
  table.read("watts", device.watts);
  table.each("flops_per_second", [&](const std::string& key, double rate, const toml::node& node) {
    if (key == kTf32) {
      device.tf32_flops_per_second = rate;
      return;
    }
    const auto dtype = parse_dtype(key);
    if (!dtype)
      throw_error("{}: flops_per_second has no number format '{}'; {}", table.where(node), key,
                  suggestion(key, std::vector<std::string>{"f64", "f32", "f16", "bf16", "i32", "u8", std::string(kTf32)}));
    device.flops_per_second[*dtype] = rate;
  });
  table.read("ops", device.ops);
  table.table("products", [&](Table& grid) {
    grid.read("m", device.products.m);
    grid.read("n", device.products.n);
    grid.read("k", device.products.k);
    grid.read("efficiency", device.products.efficiency);
  });
  return device;
}

LinkClass read_link(Table& table) {
  LinkClass link;
  table.read("name", link.name);
  table.read("alpha_seconds", link.alpha_seconds);
  table.read("bytes_per_second", link.bytes_per_second);
  table.read("all_reduce_bytes_per_second", link.all_reduce_bytes_per_second);
  table.read("gamma_seconds_per_byte", link.gamma_seconds_per_byte);
  table.read("slowdown", link.slowdown);
  table.read("loss", link.loss);
  table.read("resend_seconds", link.resend_seconds);
  return link;
}

HostClass read_host(Table& table) {
  HostClass host;
  table.read("device", host.device);
  table.read("devices", host.devices);
  table.read("count", host.count);
  table.read("inside", host.inside);
  table.read("across", host.across);
  table.read("cards", host.cards);
  table.read("levels_at_once", host.levels_at_once);
  return host;
}

std::string number_text(double value) {
  return fmt::format("{}", value);
}

std::string list_text(const std::vector<double>& values) {
  std::vector<std::string> parts;
  for (const double value : values) parts.push_back(number_text(value));
  return fmt::format("[{}]", join(parts, ", "));
}

std::string in_quotes(std::string_view text) {
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

std::string share_text(const OpShare& share) {
  if (!share.is_by_size()) return number_text(share.points()[0].share);
  std::vector<std::string> points;
  for (const SharePoint& point : share.points())
    points.push_back(list_text({point.roofline_seconds, point.share}));
  return fmt::format("[{}]", join(points, ", "));
}

std::string device_text(const DeviceClass& device) {
  std::vector<std::string> points;
  for (const BandwidthPoint& point : device.bandwidth)
    points.push_back(list_text({point.bytes, point.bytes_per_second}));
  std::vector<std::string> at_once;
  for (const std::string& op : device.at_once) at_once.push_back(in_quotes(op));
  std::string text = fmt::format(
      "[[device]]\nname = {}\nkind = {}\nmemory_bytes = {}\nbytes_per_second = [{}]\nlaunch_seconds = {}\n"
      "at_once = [{}]\nissue_seconds = {}\noffload_bytes_per_second = {}\nprice_per_hour = {}\nwatts = "
      "{}\n[device.flops_per_second]\n",
      in_quotes(device.name), in_quotes(device.kind), number_text(device.memory_bytes), join(points, ", "),
      number_text(device.launch_seconds), join(at_once, ", "), number_text(device.issue_seconds),
      number_text(device.offload_bytes_per_second), number_text(device.price_per_hour),
      number_text(device.watts));
  for (const auto& [dtype, rate] : device.flops_per_second)
    text += fmt::format("{} = {}\n", name(dtype), rate);
  if (device.tf32_flops_per_second > 0)
    text += fmt::format("{} = {}\n", kTf32, device.tf32_flops_per_second);
  text += fmt::format("[device.products]\nm = {}\nn = {}\nk = {}\nefficiency = {}\n",
                      list_text(device.products.m), list_text(device.products.n),
                      list_text(device.products.k), list_text(device.products.efficiency));
  text += "[device.ops]\n";
  for (const auto& [op, share] : device.ops)
    text += fmt::format("{} = {}\n", in_quotes(op), share_text(share));
  return text;
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
  table.read("name", cluster.name);
  table.read("source", cluster.source);
  table.read("hosts_per_leaf", cluster.hosts_per_leaf);
  table.read("oversubscription", cluster.oversubscription);
  table.tables("device", [&](Table& one) { cluster.devices.push_back(read_device(one)); });
  table.tables("host", [&](Table& one) { cluster.hosts.push_back(read_host(one)); });
  table.tables("link", [&](Table& one) { cluster.links.push_back(read_link(one)); });
  table.finish();
  check(cluster, origin);
  return cluster;
}

Cluster read_cluster(const std::string& text) {
  if (const std::string_view shipped = shipped_cluster(text); !shipped.empty())
    return parse_cluster(shipped, text);
  if (!std::filesystem::exists(text)) {
    throw_error("there is no cluster file '{}', and none of this name comes with Trireme; {}", text,
                suggestion(text, shipped_clusters()));
  }
  constexpr size_t kMostBytes = size_t{1} << 24;
  return parse_cluster(read_input_file(text, kMostBytes, "a cluster, in TOML"), text);
}

std::string to_toml(const Cluster& cluster) {
  std::string text = fmt::format("name = {}\nsource = {}\nhosts_per_leaf = {}\noversubscription = {}\n\n",
                                 in_quotes(cluster.name), in_quotes(cluster.source), cluster.hosts_per_leaf,
                                 number_text(cluster.oversubscription));
  for (const DeviceClass& device : cluster.devices) text += device_text(device) + "\n";
  for (const HostClass& host : cluster.hosts) {
    text += fmt::format(
        "[[host]]\ndevice = {}\ndevices = {}\ncount = {}\ninside = {}\nacross = {}\ncards = {}\n"
        "levels_at_once = {}\n\n",
        in_quotes(host.device), host.devices, host.count, in_quotes(host.inside), in_quotes(host.across),
        host.cards, host.levels_at_once);
  }
  for (const LinkClass& link : cluster.links) {
    text += fmt::format(
        "[[link]]\nname = {}\nalpha_seconds = {}\nbytes_per_second = {}\nall_reduce_bytes_per_second = {}\n"
        "gamma_seconds_per_byte = {}\n"
        "slowdown = {}\nloss = {}\nresend_seconds = {}\n\n",
        in_quotes(link.name), number_text(link.alpha_seconds), number_text(link.bytes_per_second),
        number_text(link.all_reduce_bytes_per_second), number_text(link.gamma_seconds_per_byte), number_text(link.slowdown), number_text(link.loss),
        number_text(link.resend_seconds));
  }
  return text;
}

}  // namespace trireme

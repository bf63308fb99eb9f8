#include "trireme/place/workflow_file.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/text.h"
#include "trireme/mesh/toml_table.h"

namespace trireme::place {
namespace {

// Reads the tables in the order in which they refer to each other.
class WorkflowReader {
 public:
  explicit WorkflowReader(const std::string& origin) : origin_(origin) {}

  Workflow read(const toml::table& root) {
    TomlTable table(root, origin_, "a workflow");
    table("accuracy", workflow_.accuracy);
    table("load", workflow_.load);
    table("shared", workflow_.shared);
    table("tiers", workflow_.tiers);
    if (workflow_.tiers.empty()) workflow_.tiers = {"here"};
    table.tables("link", [&](TomlTable& one) { read_link(one); });
    table.tables("worker", [&](TomlTable& one) { read_worker(one); });
    table.tables("source", [&](TomlTable& one) { read_source(one); });
    table.tables("op", [&](TomlTable& one) { read_op(one); });
    table.finish();
    check(workflow_, origin_);
    return std::move(workflow_);
  }

 private:
  void read_link(TomlTable& table) {
    TierLink& link = workflow_.links.emplace_back();
    std::string from, to;
    table("from", from);
    table("to", to);
    table("price_per_gigabyte", link.price_per_gigabyte);
    std::string speed;
    table("speed", speed);
    if (!speed.empty()) link.speed = read_speed(speed, from, to);
    link.from = tier(from, "a link");
    link.to = tier(to, "a link");
  }
  void read_worker(TomlTable& table) {
    WorkerClass& worker = workflow_.workers.emplace_back();
    std::string tier_name = workflow_.tiers.front();
    table("name", worker.name);
    table("tier", tier_name);
    table("price_per_hour", worker.price_per_hour);
    table("count", worker.count);
    worker.tier = tier(tier_name, fmt::format("worker '{}'", worker.name));
  }
  void read_source(TomlTable& table) {
    Source& source = workflow_.sources.emplace_back();
    std::string tier_name = workflow_.tiers.front();
    table("name", source.name);
    table("tier", tier_name);
    table("rate", source.rate);
    table("kilobytes", source.kilobytes);
    table("held_out", source.held_out);
    source.tier = tier(tier_name, fmt::format("source '{}'", source.name));
  }
  void read_op(TomlTable& table) {
    Op op;
    std::vector<std::string> inputs;
    std::vector<double> ratios;
    table("name", op.name);
    table("inputs", inputs);
    table("ratios", ratios);
    if (!ratios.empty() && ratios.size() != inputs.size())
      throw_error("{}: op '{}' has {} ratios for {} inputs; one each expected", origin_, op.name,
                  ratios.size(), inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      op.inputs.push_back(input(inputs[i], op.name));
      if (!ratios.empty()) op.inputs.back().ratio = ratios[i];
    }
    table.tables("variant", [&](TomlTable& one) { op.variants.push_back(read_variant(one)); });
    workflow_.ops.push_back(std::move(op));
  }
  Variant read_variant(TomlTable& table) {
    Variant variant;
    variant.seconds.resize(workflow_.workers.size());
    table("name", variant.name);
    table("kilobytes", variant.kilobytes);
    table.each("milliseconds", [&](const std::string& worker, double milliseconds, const toml::node& node) {
      const auto found = std::ranges::find(workflow_.workers, worker, &WorkerClass::name);
      if (found == workflow_.workers.end())
        throw_error("{}: there is no worker '{}'; {}", table.where(node), worker,
                    suggestion(worker, names(workflow_.workers)));
      variant.seconds[found - workflow_.workers.begin()] = milliseconds / 1000;
    });
    table("accuracy", variant.points);
    table("run", variant.run);
    table("weights", variant.weights);
    table("tokens", variant.tokens);
    return variant;
  }

  comm::EmulatedLink read_speed(const std::string& text, const std::string& from,
                                const std::string& to) const {
    const std::string where = fmt::format("{}: the speed of the link from '{}' to '{}'", origin_, from, to);
    comm::EmulatedLink speed;
    try {
      speed = comm::parse_emulated_link(text);
    } catch (const Error& error) {
      throw_error("{}: {}", where, error.what());
    }
    if (speed.jitter_seconds > 0)
      throw_error("{} has jitter, which is not simulated; leave it out: jitter=0ms", where);
    return speed;
  }
  int tier(const std::string& name, const std::string& whose) const {
    const auto found = std::ranges::find(workflow_.tiers, name);
    if (found == workflow_.tiers.end())
      throw_error("{}: {} names tier '{}'; {}", origin_, whose, name, suggestion(name, workflow_.tiers));
    return static_cast<int>(found - workflow_.tiers.begin());
  }
  Op::Input input(const std::string& name, const std::string& op) const {
    if (const auto found = std::ranges::find(workflow_.sources, name, &Source::name);
        found != workflow_.sources.end())
      return {.is_source = true, .index = static_cast<int>(found - workflow_.sources.begin())};
    if (const auto found = std::ranges::find(workflow_.ops, name, &Op::name); found != workflow_.ops.end())
      return {.index = static_cast<int>(found - workflow_.ops.begin())};
    std::vector<std::string> known = names(workflow_.sources);
    for (const std::string& one : names(workflow_.ops)) known.push_back(one);
    throw_error("{}: op '{}' takes '{}', which is no source and no op before it; {}", origin_, op, name,
                suggestion(name, known));
  }
  template <typename Item>
  static std::vector<std::string> names(const std::vector<Item>& items) {
    std::vector<std::string> result;
    for (const Item& item : items) result.push_back(item.name);
    return result;
  }

  const std::string& origin_;
  Workflow workflow_;
};

}  // namespace

// A number, or a list of points: those of the inputs, then its own. TomlTable finds it by its arguments.
static void read_toml(const TomlTable& table, const toml::node& node, std::string_view key,
                      std::vector<AccuracyPoint>& points) {
  if (node.is_number()) {
    points.push_back({{}, table.number(node, key)});
    return;
  }
  if (!node.is_array()) table.refuse(node, key, "a number, or a list of [accuracies of inputs…, accuracy]");
  for (const toml::node& item : *node.as_array()) {
    std::vector<double> numbers = table.numbers(item, key);
    if (numbers.empty()) table.refuse(item, key, "[accuracies of inputs…, accuracy]");
    const double output = numbers.back();
    numbers.pop_back();
    points.push_back({std::move(numbers), output});
  }
}

Workflow parse_workflow(std::string_view toml, const std::string& origin) {
  return WorkflowReader(origin).read(
      parse_toml(toml, origin, "[[worker]], [[source]] and [[op]] with their keys"));
}

Workflow read_workflow(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 24;
  return parse_workflow(read_input_file(path, kMostBytes, "a workflow, in TOML"), path);
}

}  // namespace trireme::place

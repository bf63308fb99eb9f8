// See placement_file.h.
#include "trireme/place/placement_file.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/json.h"

namespace trireme::place {
namespace {

using Json = nlohmann::json;

class PlacementReader {
 public:
  PlacementReader(const Workflow& workflow, const std::string& origin)
      : workflow_(workflow), origin_(origin) {}

  Placement read(const Json& json) {
    placement_.rented.assign(workflow_.shared ? 1 : workflow_.ops.size(),
                             std::vector<int>(workflow_.workers.size()));
    placement_.variants.assign(workflow_.ops.size(), kAnyVariant);
    for (const Json& op : list(json, "ops")) read_op(op);
    for (size_t o = 0; o < workflow_.ops.size(); ++o) {
      if (placement_.variants[o] == kAnyVariant)
        throw_error("{}: op '{}' of the workflow is not placed; place it again", origin_,
                    workflow_.ops[o].name);
    }
    for (const Json& one : list(json, "messages")) read_messages(one);
    try {
      check(workflow_, placement_);
    } catch (const Error& error) {
      throw_error("{}: not a placement of this workflow: {}; place it again", origin_, error.what());
    }
    return std::move(placement_);
  }

 private:
  void read_op(const Json& json) {
    const int o = index(json, "op", workflow_.ops);
    const Op& op = workflow_.ops[o];
    if (placement_.variants[o] != kAnyVariant) throw_error("{}: op '{}' is there twice", origin_, op.name);
    placement_.variants[o] = index(json, "variant", op.variants);
    for (const Json& one : list(json, "workers")) {
      const int worker = index(one, "worker", workflow_.workers);
      const double count = number(one, "count");
      if (count != static_cast<int>(std::min(count, 1e6)))
        throw_error("{}: a count of {}; a whole number expected", origin_, count);
      if (!op.variants[placement_.variants[o]].seconds[worker])
        throw_error("{}: variant '{}' of op '{}' does not run on '{}'", origin_,
                    op.variants[placement_.variants[o]].name, op.name, workflow_.workers[worker].name);
      placement_.rented[workflow_.shared ? 0 : o][worker] = static_cast<int>(count);
      placement_.shares.push_back({o, worker, number(one, "inputs_per_second")});
    }
  }

  void read_messages(const Json& json) {
    const int o = index(json, "to", workflow_.ops);
    const std::string from = text(json, "from");
    const auto& inputs = workflow_.ops[o].inputs;
    const auto found = std::ranges::find_if(inputs, [&](const Op::Input& input) {
      return from ==
             (input.is_source ? workflow_.sources[input.index].name : workflow_.ops[input.index].name);
    });
    if (found == inputs.end())
      throw_error("{}: op '{}' does not take messages of '{}'", origin_, workflow_.ops[o].name, from);
    placement_.traffic.push_back({o, static_cast<int>(found - inputs.begin()), tier(json, "from_tier"),
                                  tier(json, "to_tier"), number(json, "messages_per_second")});
  }

  const Json& value(const Json& json, const char* key) const {
    if (!json.is_object() || !json.contains(key))
      throw_error("{}: '{}' is missing; a placement as `trireme place -o` writes it expected", origin_, key);
    return json.at(key);
  }
  const Json& list(const Json& json, const char* key) const {
    const Json& found = value(json, key);
    if (!found.is_array()) throw_error("{}: '{}' is no list", origin_, key);
    return found;
  }
  std::string text(const Json& json, const char* key) const {
    const Json& found = value(json, key);
    if (!found.is_string()) throw_error("{}: '{}' is no string", origin_, key);
    return found.get<std::string>();
  }
  double number(const Json& json, const char* key) const {
    const Json& found = value(json, key);
    if (!found.is_number() || !(found.get<double>() >= 0))
      throw_error("{}: '{}' is no number from 0", origin_, key);
    return found.get<double>();
  }
  template <typename Item>
  int index(const Json& json, const char* key, const std::vector<Item>& items) const {
    const std::string name = text(json, key);
    const auto found = std::ranges::find(items, name, &Item::name);
    if (found == items.end())
      throw_error("{}: {} '{}' is not in the workflow; place it again", origin_, key, name);
    return static_cast<int>(found - items.begin());
  }
  int tier(const Json& json, const char* key) const {
    const auto found = std::ranges::find(workflow_.tiers, text(json, key));
    if (found == workflow_.tiers.end())
      throw_error("{}: {} '{}' is not in the workflow; place it again", origin_, key, text(json, key));
    return static_cast<int>(found - workflow_.tiers.begin());
  }

  const Workflow& workflow_;
  const std::string& origin_;
  Placement placement_;
};

}  // namespace

Placement parse_placement(std::string_view json, const Workflow& workflow, const std::string& origin) {
  const Json parsed = parse_json(json, origin);
  if (parsed.is_discarded()) throw_error("{}: not JSON; a placement of `trireme place -o` expected", origin);
  return PlacementReader(workflow, origin).read(parsed);
}

Placement read_placement(const std::string& path, const Workflow& workflow) {
  constexpr size_t kMostBytes = size_t{1} << 24;
  return parse_placement(read_input_file(path, kMostBytes, "a placement, in JSON"), workflow, path);
}

}  // namespace trireme::place

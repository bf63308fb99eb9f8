// Plans as JSON. Every key that was read is written again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "trireme/base/enum_name.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/plan/combinations.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/schedule_names.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;  // layouts keep their order: the first that fits a name counts

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

// The axes of a preset are there, and no axis is there for nothing. Data parallelism is always meant, with or
// without its axes.
void check_axes(const Plan& plan, std::string_view source) {
  std::vector<std::string> used = preset_axes(plan.preset, source);
  for (const std::string& axis : used) {
    if (plan.has("data") && axis == "data") continue;
    if (plan.mesh.axes().empty() || plan.mesh.find(axis) >= 0) continue;
    throw_error(
        "{}: the preset '{}' spreads over the axis '{}', which the mesh '{}' does not have; add {}:2, say, "
        "to the mesh, or leave that part out of the preset",
        source, plan.preset, axis, to_string(plan.mesh), axis);
  }
  for (const std::string_view axis : {kDataAxis, kReplicaAxis}) {
    if (!contains(used, axis)) used.emplace_back(axis);
  }
  used.emplace_back(kPipeAxis);
  const std::vector<std::string> of_preset = used;
  for (const auto& [pattern, layout] : plan.layouts) {
    for (size_t a = 0; a < layout.size(); ++a) {
      if (layout[a].kind != Placement::Kind::kReplicated) used.push_back(plan.mesh.axes()[a].name);
    }
  }
  for (const Axis& axis : plan.mesh.axes()) {
    if (contains(used, axis.name)) continue;
    const std::string near = nearest(axis.name, of_preset);
    throw_error("{}: the preset '{}' has no use for the axis '{}'; it spreads over {}{}", source, plan.preset,
                axis.name, join(of_preset, " and "),
                near.empty() ? "" : fmt::format(". Did you mean '{}'?", near));
  }
}

// Refused as they are read: values that are nested deeper than any plan (what is printed or freed level by
// level would overflow the stack), keys that are there twice (of which one would be forgotten), and text that
// a terminal would obey.
Json parse_json(std::string_view text, std::string_view source) {
  using Event = Json::parse_event_t;
  constexpr int kMostLevels = 32;
  std::vector<std::set<std::string>> open;  // the keys so far of each object that has not ended
  const auto check = [&](int depth, Event event, const Json& value) {
    if (depth > kMostLevels)
      throw_error("{}: values within values, more than {} levels deep; a plan has three", source,
                  kMostLevels);
    if (value.is_string() && printable(value.get<std::string>()) != value.get<std::string>())
      throw_error("{}: the text '{}' has control characters; a plan has none", source,
                  value.get<std::string>());
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(value.get<std::string>()).second)
      throw_error("{}: the key '{}' is there twice; take one of them out", source, value.get<std::string>());
    return true;
  };
  return Json::parse(text, check, /*allow_exceptions=*/false);
}

std::string text_of(const Json& value, std::string_view key, std::string_view source) {
  if (!value.is_string()) throw_error("{}: {} is {}; a text expected", source, key, value.dump());
  return value.get<std::string>();
}

const Json& object_of(const Json& value, std::string_view key, std::string_view source) {
  if (!value.is_object()) throw_error("{}: {} is {}; an object expected", source, key, value.dump());
  return value;
}

// "data:2 tensor:2", or an object {"data": 2, "tensor": 2}: the order of its keys is that of the axes.
Mesh read_mesh(const Json& value, std::string_view source) {
  try {
    if (!value.is_object()) return parse_mesh(text_of(value, "mesh", source));
    std::vector<Axis> axes;
    for (const auto& [name, size] : value.items()) {
      if (!size.is_number_integer() || size.get<int64_t>() < 1 ||
          size.get<int64_t>() > std::numeric_limits<int>::max())
        throw_error("mesh: axis {} has size {}; a whole number, 1 or more, expected", name, size.dump());
      axes.push_back({name, size.get<int>()});
    }
    return Mesh(std::move(axes));
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (text.starts_with(source)) throw;
    throw_error("{}: {}", source, text);
  }
}

void read_layouts(const Json& value, Plan& plan, std::string_view source) {
  for (const auto& [pattern, layout] : object_of(value, "layouts", source).items()) {
    const std::string text = text_of(layout, "the layout of " + pattern, source);
    try {
      plan.layouts.emplace_back(pattern,
                                parse_layout(text.starts_with('{') ? text : "{" + text + "}", plan.mesh));
    } catch (const Error& error) {
      throw_error("{}: the layout of {}: {}", source, pattern, error.what());
    }
  }
}

void read_accumulate(const Json& value, Plan& plan, std::string_view source) {
  constexpr int64_t kMost = 65536;  // as train.accumulate: a step has a list with an entry for each
  if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > kMost)
    throw_error("{}: accumulate is {}; a whole number of microbatches, 1 to {}, expected", source,
                value.dump(), kMost);
  plan.accumulate = value.get<int64_t>();
}

void read_bucket(const Json& value, Plan& plan, std::string_view source) {
  constexpr int64_t kMost = int64_t{4} << 20;  // 4 GiB
  if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > kMost)
    throw_error("{}: bucket_kib is {}; a whole number of KiB that share a collective, 1 to {}, expected",
                source, value.dump(), kMost);
  plan.bucket_kib = value.get<int64_t>();
}

void read_precision(const Json& value, Plan& plan, std::string_view source) {
  const std::vector<std::string> known = {"f32", "bf16", "f16"};
  plan.precision = text_of(value, "precision", source);
  if (!contains(known, *plan.precision))
    throw_error("{}: there is no precision '{}'; {}", source, *plan.precision,
                suggestion(*plan.precision, known));
}

void read_batch_norm(const Json& value, Plan& plan, std::string_view source) {
  const std::vector<std::string> known = {"synchronised", "local"};
  const std::string text = text_of(value, "batch_norm", source);
  if (!contains(known, text))
    throw_error("{}: batch_norm is '{}'; {}", source, text, suggestion(text, known));
  plan.batch_norm = text == "local" ? Plan::BatchNorm::kLocal : Plan::BatchNorm::kSynchronised;
}

void check_word(const Json& value, std::string_view key, const std::vector<std::string>& known,
                std::string_view source) {
  const std::string text = text_of(value, key, source);
  if (!contains(known, text))
    throw_error("{}: there is no {} '{}'; {}", source, key, text, suggestion(text, known));
}

std::vector<std::string> scopes_of(const Json& value, std::string_view key, std::string_view source) {
  const bool texts =
      value.is_array() && std::ranges::all_of(value, [](const Json& scope) { return scope.is_string(); });
  if (!texts)
    throw_error("{}: {} is {}; a list of scopes, [\"h.3\", \"h.6\"], expected", source, key, value.dump());
  return value.get<std::vector<std::string>>();
}

void read_schedule(const Json& value, Plan& plan, std::string_view source) {
  check_word(value, "schedule", {std::begin(kScheduleNames), std::end(kScheduleNames)}, source);
  plan.schedule = value.get<std::string>();
}

void read_chunks(const Json& value, Plan& plan, std::string_view source) {
  constexpr int kMost = 1024;
  if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > kMost)
    throw_error("{}: chunks is {}; a whole number of chunks a stage, 1 to {}, expected", source, value.dump(),
                kMost);
  plan.chunks = value.get<int>();
}

void read_boundaries(const Json& value, Plan& plan, std::string_view source) {
  check_word(value, "boundaries", {"whole", "parts"}, source);
  plan.boundaries = value == "parts" ? Plan::Boundaries::kParts : Plan::Boundaries::kWhole;
}

void read_vertical_sync(const Json& value, Plan& plan, std::string_view source) {
  if (!value.is_boolean())
    throw_error("{}: vertical_sync is {}; true or false expected", source, value.dump());
  plan.vertical_sync = value.get<bool>();
}

// What a pipeline's keys say makes sense for the mesh.
void check_pipeline(const Plan& plan, std::string_view source) {
  constexpr int kMostStages =
      4096;  // every stage has a list of actions, and more layers than that has nobody
  if (plan.pipeline_stages() > kMostStages)
    throw_error("{}: the mesh '{}' has {} stages (axis pipe); at most {} expected", source,
                to_string(plan.mesh), plan.pipeline_stages(), kMostStages);
  const bool pipe = plan.mesh.find(kPipeAxis) >= 0;
  const auto refuse = [&](std::string_view key) {
    throw_error(
        "{}: it has the key {}, which is about a pipeline, but the mesh '{}' has no axis pipe; add "
        "pipe:2, say, to the mesh, or take the key out",
        source, key, to_string(plan.mesh));
  };
  if (!pipe && plan.schedule) refuse("schedule");
  if (!pipe && plan.chunks.value_or(1) > 1) refuse("chunks");
  if (!pipe && !plan.stages.empty()) refuse("stages");
  if (!pipe && plan.vertical_sync) refuse("vertical_sync");
  if (!pipe && plan.boundaries) refuse("boundaries");
  if (plan.boundaries == Plan::Boundaries::kParts && plan.mesh.find("tensor") < 0)
    throw_error(
        "{}: boundaries is parts, of what the ranks along the axis tensor all have, but the mesh '{}' has no "
        "such axis; take the key out",
        source, to_string(plan.mesh));
  for (const auto& [pattern, layout] : plan.layouts) {
    if (pipe && layout[plan.mesh.find(kPipeAxis)].kind != Placement::Kind::kReplicated)
      throw_error(
          "{}: the layout of {} speaks of the axis pipe, whose ranks have different parts of the model "
          "(stages), not parts of its tensors; use data or tensor",
          source, pattern);
  }
}

constexpr EnumNames<4> kRecompute = {"none", "full", "selective", "full_keep_collectives"};

void read_recompute(const Json& value, Plan& plan, std::string_view source) {
  if (value.is_string()) {
    check_word(value, "recompute", {kRecompute.begin(), kRecompute.end()}, source);
    plan.recompute = {*enum_named<Recompute::Kind>(kRecompute, value.get<std::string>())};
  } else {
    plan.recompute = {Recompute::Kind::kNamed, scopes_of(value, "recompute", source)};
  }
}

Json recompute_json(const Recompute& recompute) {
  if (recompute.kind == Recompute::Kind::kNamed) return recompute.names;
  return name(recompute.kind);
}

void read_offload(const Json& value, Plan& plan, std::string_view source) {
  constexpr std::string_view kExample =
      R"({"optimizer": "file", "folder": "/fast/disk"}, or {"optimizer": "host"} on a GPU)";
  if (object_of(value, "offload", source).empty()) return;
  const std::vector<std::string> known = {"optimizer", "weights", "gradients", "folder"};
  std::string where;
  for (const auto& [what, text] : value.items()) {
    const std::string word = text_of(text, "the offload of " + what, source);
    if (!contains(known, what))
      throw_error("{}: offload has the unknown key '{}'; {}", source, what, suggestion(what, known));
    if (what == "folder") continue;
    if (word != "file" && word != "host")
      throw_error("{}: offload has {}: \"{}\", but states rest in a file or in memory of the host; say {}",
                  source, what, word, kExample);
    if (!where.empty() && word != where)
      throw_error("{}: offload has states in both file and host; all rest in one of them", source);
    where = word;
  }
  if (!value.contains("optimizer") || value.contains("folder") != (where == "file"))
    throw_error(
        "{}: offload says {}; what rests where (the optimizer's states first, with them weights and "
        "gradients) and, for files, in which folder is expected: {}",
        source, value.dump(), kExample);
  plan.offload = {where == "file" ? value["folder"].get<std::string>() : "", value.contains("weights"),
                  value.contains("gradients")};
  if (where == "file" && plan.offload->folder.empty())
    throw_error("{}: the folder of offload is empty; say {}", source, kExample);
}

// How replicas agree: the name of a method, or an object with its settings.
ExchangeRule exchange_rule(const Json& value, std::string_view source) {
  if (value.is_object() && !value.contains("method"))
    throw_error("{}: exchange is {}, which names no method; say for example {{\"method\": \"all_reduce\"}}",
                source, value.dump());
  const Json& method = value.is_object() ? value["method"] : value;
  ExchangeRule rule{.method = text_of(method, "exchange", source)};
  if (!value.is_object()) return rule;
  for (const auto& [key, setting] : value.items()) {
    if (key == "method") continue;
    if (key == "for")
      rule.pattern = text_of(setting, "the exchange's for", source);
    else if (setting.is_boolean())
      rule.numbers[key] = setting.get<bool>() ? 1 : 0;
    else if (setting.is_number())
      rule.numbers[key] = setting.get<double>();
    else
      rule.words[key] = text_of(setting, "the exchange's " + key, source);
  }
  return rule;
}

// One for all, or a list of such for some names each.
void read_exchange(const Json& value, Plan& plan, std::string_view source) {
  std::vector<ExchangeRule> rules;
  if (value.is_array()) {
    for (const Json& one : value) rules.push_back(exchange_rule(object_of(one, "exchange", source), source));
  } else {
    rules = {exchange_rule(value, source)};
  }
  try {
    plan.agreement = Agreement(std::move(rules), plan.mesh.ranks());
  } catch (const Error& error) {
    throw_error("{}: {}", source, error.what());
  }
}

Json exchange_json(const std::vector<ExchangeRule>& rules) {
  Json list = Json::array();
  for (const ExchangeRule& rule : rules) {
    Json one{{"method", rule.method}};
    if (!rule.pattern.empty()) one["for"] = rule.pattern;
    for (const auto& [name, number] : rule.numbers) {
      if (number == std::floor(number) && std::abs(number) < 0x1p53)
        one[name] = static_cast<int64_t>(number);
      else
        one[name] = number;
    }
    for (const auto& [name, word] : rule.words) one[name] = word;
    list.push_back(std::move(one));
  }
  return list.size() == 1 ? list[0] : list;
}

// One for all axes, or an object with one for each.
void read_algorithm(const Json& value, Plan& plan, std::string_view source) {
  if (value.is_string()) {
    for (const Axis& axis : plan.mesh.axes()) plan.algorithms[axis.name] = value.get<std::string>();
    return;
  }
  if (!value.is_object())
    throw_error("{}: algorithm is {}; a name, or an object with one for each axis, expected", source,
                value.dump());
  for (const auto& [axis, algorithm] : value.items()) {
    plan.mesh.axis(axis);  // an Error with the nearest name
    plan.algorithms[axis] = text_of(algorithm, "the algorithm of " + axis, source);
  }
}

}  // namespace

std::string_view name(Recompute::Kind kind) {
  return kRecompute[static_cast<size_t>(kind)];
}

const std::vector<std::string>& plan_keys() {
  static const std::vector<std::string> kKeys = {"mesh",      "preset",        "layouts",    "accumulate",
                                                 "precision", "algorithm",     "batch_norm", "schedule",
                                                 "chunks",    "stages",        "recompute",  "exchange",
                                                 "offload",   "vertical_sync", "boundaries", "bucket_kib"};
  return kKeys;
}

Plan parse_plan(std::string_view json, std::string_view source) {
  const Json root = parse_json(json, source);
  if (!root.is_object())
    throw_error("{}: no JSON object found; {{\"mesh\": \"data:2\", \"preset\": \"data\"}} is one", source);
  for (const auto& [key, value] : root.items()) {
    if (!contains(plan_keys(), key))
      throw_error("{}: unknown key '{}'; {}", source, key, suggestion(key, plan_keys()));
  }
  Plan plan;
  if (!root.contains("mesh"))
    throw_error("{}: there is no mesh; say for example \"mesh\": \"data:4\"", source);
  plan.mesh = read_mesh(root["mesh"], source);
  if (root.contains("preset")) plan.preset = text_of(root["preset"], "preset", source);
  if (root.contains("layouts")) read_layouts(root["layouts"], plan, source);
  if (root.contains("accumulate")) read_accumulate(root["accumulate"], plan, source);
  if (root.contains("bucket_kib")) read_bucket(root["bucket_kib"], plan, source);
  if (root.contains("precision")) read_precision(root["precision"], plan, source);
  if (root.contains("batch_norm")) read_batch_norm(root["batch_norm"], plan, source);
  if (root.contains("algorithm")) read_algorithm(root["algorithm"], plan, source);
  if (root.contains("schedule")) read_schedule(root["schedule"], plan, source);
  if (root.contains("chunks")) read_chunks(root["chunks"], plan, source);
  if (root.contains("vertical_sync")) read_vertical_sync(root["vertical_sync"], plan, source);
  if (root.contains("boundaries")) read_boundaries(root["boundaries"], plan, source);
  if (root.contains("stages")) plan.stages = scopes_of(root["stages"], "stages", source);
  if (root.contains("recompute")) read_recompute(root["recompute"], plan, source);
  if (root.contains("exchange")) read_exchange(root["exchange"], plan, source);
  if (root.contains("offload")) read_offload(root["offload"], plan, source);
  check_axes(plan, source);
  check_pipeline(plan, source);
  check_combinations(features_of(plan), source);
  return plan;
}

std::string to_json(const Plan& plan) {
  Json json{{"mesh", to_string(plan.mesh)}, {"preset", plan.preset}};
  for (const auto& [pattern, layout] : plan.layouts) json["layouts"][pattern] = to_string(layout, plan.mesh);
  if (plan.accumulate) json["accumulate"] = *plan.accumulate;
  if (plan.bucket_kib) json["bucket_kib"] = *plan.bucket_kib;
  if (plan.precision) json["precision"] = *plan.precision;
  if (plan.batch_norm)
    json["batch_norm"] = *plan.batch_norm == Plan::BatchNorm::kLocal ? "local" : "synchronised";
  for (const auto& [axis, algorithm] : plan.algorithms) json["algorithm"][axis] = algorithm;
  if (plan.schedule) json["schedule"] = *plan.schedule;
  if (plan.chunks) json["chunks"] = *plan.chunks;
  if (plan.vertical_sync) json["vertical_sync"] = *plan.vertical_sync;
  if (plan.boundaries) json["boundaries"] = *plan.boundaries == Plan::Boundaries::kParts ? "parts" : "whole";
  if (!plan.stages.empty()) json["stages"] = plan.stages;
  if (plan.recompute) json["recompute"] = recompute_json(*plan.recompute);
  if (!plan.agreement.rules().empty()) json["exchange"] = exchange_json(plan.agreement.rules());
  if (plan.offload) {
    const char* where = plan.offload->folder.empty() ? "host" : "file";
    json["offload"]["optimizer"] = where;
    if (plan.offload->weights) json["offload"]["weights"] = where;
    if (plan.offload->gradients) json["offload"]["gradients"] = where;
    if (!plan.offload->folder.empty()) json["offload"]["folder"] = plan.offload->folder;
  }
  return json.dump(2);
}

}  // namespace trireme

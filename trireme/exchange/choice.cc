// What a plan may combine is a list of refusals, each with its reason.
#include "trireme/exchange/choice.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/exchange/consistency.h"
#include "trireme/ir/trained.h"
#include "trireme/plan/servers.h"

namespace trireme {
namespace {

// Vectors and what belongs to norms are small, and little of them can be left out.
bool is_compressed_by_default(const Value& parameter) {
  return parameter.type.shape.rank() >= 2 && parameter.attrs.text("layer", "") != "norm";
}

// What the mesh and the preset do not allow.
void check_plan_for(const Plan& plan) {
  const int data = plan.mesh.find("data");
  if (data < 0 || plan.mesh.axes()[data].size == 1)
    throw_error(
        "the plan has an exchange, which is about how the ranks of the axis data agree, but its mesh '{}' "
        "has not "
        "several of them; take the key exchange out, or add data:2, say, to the mesh",
        to_string(plan.mesh));
  for (const char* preset : {"zero2", "zero3"}) {
    if (plan.has(preset))
      throw_error(
          "the plan has an exchange and the preset {}, which adds up parts of gradients as they are made and "
          "keeps no "
          "rank's own; what a method leaves out is kept of whole gradients on every rank. zero1 goes with "
          "exchange",
          preset);
  }
}

// What the optimizer, or clipping, would do a second time.
void check_update(const ExchangeChoice& choice, const Value& parameter, const Graph& update) {
  using enum ExchangeMethod::Direction;
  if (choice.method->direction == kGradient) return;
  const bool has_momentum =
      !choice.settings.numbers.contains("momentum") || choice.settings.real("momentum") > 0;
  for (const Value& value : update.values) {
    const bool is_moment = value.role == Role::kOptimizer && !value.attrs.has(kStartsAs);
    if (has_momentum && is_moment && value.attrs.text("of", "") == parameter.name)
      throw_error(
          "the exchange {} has momentum of its own, and so has this optimizer, for {}; use optim.kind=sgd, "
          "or "
          "\"momentum\": 0 for the exchange",
          choice.method->name, parameter.name);
  }
  if (choice.method->direction != kOwnSteps) return;
  for (const Node& node : update.nodes) {
    if (node.attrs.has("max_norm") && node.attrs.real("max_norm") > 0)
      throw_error(
          "the exchange {} makes steps of a size of its own, whatever that of the gradient, so that "
          "train.clip_norm = {} would do nothing but make all of them smaller alike; set train.clip_norm=0 "
          "and "
          "the rate instead",
          choice.method->name, node.attrs.real("max_norm"));
  }
}

}  // namespace

std::vector<ExchangeChoice> exchange_choices(const Plan& plan) {
  std::vector<ExchangeChoice> choices;
  if (consistency_of(plan) || servers_of(plan)) return choices;
  for (const ExchangeRule& rule : plan.exchange) {
    const ExchangeMethod* method = find_exchange_method(rule.method);
    TRIREME_CHECK(method != nullptr);  // check_rules() knows them
    choices.push_back({method, checked_settings(rule), rule.pattern});
  }
  return choices;
}

std::vector<int64_t> early_ends(const std::vector<ExchangeChoice>& choices) {
  std::set<int64_t> ends;
  for (const ExchangeChoice& choice : choices) {
    if (!choice.method->early) continue;
    for (const int64_t end : choice.method->early(choice.settings)) ends.insert(end);
  }
  return {ends.begin(), ends.end()};
}

bool has_exchange(const Plan& plan) {
  return consistency_of(plan) || servers_of(plan) ||
         std::ranges::any_of(exchange_choices(plan),
                             [](const ExchangeChoice& one) { return !one.is_dense(); });
}

const ExchangeChoice* choice_for(const std::vector<ExchangeChoice>& choices, const Value& parameter,
                                 const Shape& shape) {
  for (const ExchangeChoice& choice : choices) {
    const bool named = !choice.pattern.empty();
    const bool takes_all = choice.method->takes == ExchangeMethod::Takes::kAll;
    if (named ? !fits_pattern(choice.pattern, parameter.name)
              : !takes_all && !is_compressed_by_default(parameter))
      continue;
    if (choice.is_dense() || shape.elements() == 0) return nullptr;
    if (!named && choice.method->pays && !choice.method->pays(shape, choice.settings)) return nullptr;
    const std::string problem = choice.method->problem ? choice.method->problem(shape, choice.settings) : "";
    if (!problem.empty())
      throw_error("the exchange {} of {}: {}", choice.method->name, parameter.name, problem);
    return &choice;
  }
  return nullptr;
}

void check_exchange_names(const Plan& plan, std::span<const std::string> parameters) {
  for (const ExchangeRule& rule : plan.exchange) {
    const auto fits = [&](const std::string& name) { return fits_pattern(rule.pattern, name); };
    if (rule.pattern.empty() || std::ranges::any_of(parameters, fits)) continue;
    const std::string near = nearest(rule.pattern, parameters);
    throw_error("the plan has an exchange for '{}', but this model has no parameter that is called so{}",
                rule.pattern, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
  }
}

void check_exchange(const Plan& plan, const Graph& update) {
  if (!has_exchange(plan)) return;
  if (consistency_of(plan)) check_consistency(plan);
  check_plan_for(plan);
  if (std::ranges::find(update.outputs, "squares", &Output::name) != update.outputs.end())
    throw_error(
        "train.noise_scale compares the norm of the ranks' gradients with that of their sum, and the plan's "
        "exchange "
        "makes something else of the sum; take one of them out");
  if (consistency_of(plan)) return;
  const std::vector<ExchangeChoice> choices = exchange_choices(plan);
  bool any = false;
  for (const Value& value : update.values) {
    if (value.role != Role::kParameter) continue;
    const ExchangeChoice* choice = choice_for(choices, value, value.type.shape);
    any |= choice != nullptr;
    if (choice) check_update(*choice, value, update);
  }
  if (!any)
    throw_error(
        "the plan's exchange is of use for no parameter of this model: {} leaves vectors dense, and matrices "
        "that it "
        "would hardly make smaller; take the key exchange out, or change its settings",
        choices[0].method->name);
}

}  // namespace trireme

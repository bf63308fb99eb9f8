// What a plan may combine is a list of refusals, each with its reason.
#include "trireme/exchange/choice.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/exchange/agreement_record.h"
#include "trireme/ir/trained.h"
#include "trireme/plan/clients.h"
#include "trireme/plan/combinations.h"

namespace trireme {
namespace {

// Vectors and what belongs to norms are small, and little of them can be left out.
bool is_compressed_by_default(const Value& parameter) {
  return parameter.type.shape.rank() >= 2 && parameter.attrs.text("layer", "") != "norm";
}

void check_mesh(const Plan& plan) {
  const int replicas = replicas_of(plan.mesh);
  if (replicas == 1)
    throw_error(
        "the plan has an exchange, which is about how the ranks of the axis data or replica agree, but its "
        "mesh '{}' has not several of them; take the key exchange out, or add data:2, say, to the mesh",
        to_string(plan.mesh));
  Clients(plan.agreement.with_epochs_as_steps(1), replicas);  // refuses what can not be
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
      check_combinations({Feature::kOwnMomentum, Feature::kMoments},
                         fmt::format("the exchange {} of {}", choice.method->name, parameter.name));
  }
  if (choice.method->direction != kOwnSteps) return;
  for (const Node& node : update.nodes) {
    if (node.attrs.has("max_norm") && node.attrs.real("max_norm") > 0)
      check_combinations({Feature::kOwnSteps, Feature::kClipNorm},
                         fmt::format("the exchange {} of {}", choice.method->name, parameter.name));
  }
}

}  // namespace

std::vector<ExchangeChoice> exchange_choices(const Agreement& agreement) {
  std::vector<ExchangeChoice> choices;
  if (record_of(agreement).steps) return choices;
  for (size_t r = 0; r < agreement.rules().size(); ++r) {
    const ExchangeRule& rule = agreement.rules()[r];
    const ExchangeMethod* method = find_exchange_method(rule.method);
    TRIREME_CHECK(method != nullptr);
    choices.push_back(
        {method, agreement.settings(r), rule.pattern, is_dense_sum(rule, agreement.settings(r))});
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

const ExchangeChoice* choice_for(const std::vector<ExchangeChoice>& choices, const Value& parameter,
                                 const Shape& shape) {
  for (const ExchangeChoice& choice : choices) {
    const bool named = !choice.pattern.empty();
    const bool takes_all = choice.method->takes == ExchangeMethod::Takes::kAll;
    if (named ? !fits_pattern(choice.pattern, parameter.name)
              : !takes_all && !is_compressed_by_default(parameter))
      continue;
    if (choice.dense || shape.elements() == 0) return nullptr;
    if (!named && choice.method->pays && !choice.method->pays(shape, choice.settings)) return nullptr;
    const std::string problem = choice.method->problem ? choice.method->problem(shape, choice.settings) : "";
    if (!problem.empty())
      throw_error("the exchange {} of {}: {}", choice.method->name, parameter.name, problem);
    return &choice;
  }
  return nullptr;
}

void check_exchange_names(const Plan& plan, std::span<const std::string> parameters) {
  for (const ExchangeRule& rule : plan.agreement.rules()) {
    const auto fits = [&](const std::string& name) { return fits_pattern(rule.pattern, name); };
    if (rule.pattern.empty() || std::ranges::any_of(parameters, fits)) continue;
    const std::string near = nearest(rule.pattern, parameters);
    throw_error("the plan has an exchange for '{}', but this model has no parameter that is called so{}",
                rule.pattern, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
  }
}

void check_exchange(const Plan& plan, const Graph& update) {
  if (plan.agreement.is_dense()) return;
  check_mesh(plan);
  if (plan.agreement.has_own_weights()) return;
  const std::vector<ExchangeChoice> choices = exchange_choices(plan.agreement);
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
        "that it would hardly make smaller; take the key exchange out, or change its settings",
        choices[0].method->name);
}

}  // namespace trireme

// Which method of exchange a plan gives to which parameter.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/exchange/method.h"
#include "trireme/plan/plan.h"

namespace trireme {

struct ExchangeChoice {
  const ExchangeMethod* method;
  ExchangeSettings settings;
  std::string pattern;  // "": all matrices and filters

  bool dense;  // it is the sum that is made without it
};

// Of dense and compressed agreement, in the order of the plan's rules.
std::vector<ExchangeChoice> exchange_choices(const Agreement& agreement);

// The steps (counted from 1, ascending) after which any of them does something else than before.
std::vector<int64_t> early_ends(const std::vector<ExchangeChoice>& choices);

// The one that counts for a parameter whose gradient has this shape on a rank; null where its sum stays
// dense. Throws Error where it is named and can not be exchanged so.
const ExchangeChoice* choice_for(const std::vector<ExchangeChoice>& choices, const Value& parameter,
                                 const Shape& shape);

// Throws Error where the plan has an exchange for names that none of the model's parameters has.
void check_exchange_names(const Plan& plan, std::span<const std::string> parameters);

// Throws Error where replicas can not agree so, with the reason: what the rest of the plan does not allow, an
// optimizer that does again what the method does. `update` is that
// segment of a step on whole tensors.
void check_exchange(const Plan& plan, const Graph& update);

}  // namespace trireme

// The list of all methods.
#include "trireme/exchange/methods.h"

#include <algorithm>

namespace trireme {

const std::vector<ExchangeMethod>& exchange_methods() {
  static const std::vector<ExchangeMethod> methods = {
      all_reduce_method(), top_k_method(),          dgc_method(),      power_sgd_method(),
      one_bit_method(),    threshold_method(),      terngrad_method(), qsgd_method(),
      signum_method(),     shared_pattern_method(), atomo_method(),    one_bit_adam_method(),
      pruned_ring_method()};
  return methods;
}

const ExchangeMethod* find_exchange_method(std::string_view name) {
  const auto& methods = exchange_methods();
  const auto found = std::ranges::find(methods, name, &ExchangeMethod::name);
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace trireme

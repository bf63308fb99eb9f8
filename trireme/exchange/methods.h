// One function for each method, in the file of its name.
#pragma once

#include "trireme/exchange/method.h"

namespace trireme {

ExchangeMethod all_reduce_method();
ExchangeMethod atomo_method();
ExchangeMethod dgc_method();
ExchangeMethod one_bit_method();
ExchangeMethod power_sgd_method();
ExchangeMethod qsgd_method();
ExchangeMethod shared_pattern_method();
ExchangeMethod signum_method();
ExchangeMethod terngrad_method();
ExchangeMethod threshold_method();
ExchangeMethod top_k_method();

// As many as a ratio says, one at least.
int64_t kept_elements(const Shape& shape, double ratio);

}  // namespace trireme

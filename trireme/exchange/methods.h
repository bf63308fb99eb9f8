// One function for each method, in the file of its name.
#pragma once

#include "trireme/exchange/method.h"

namespace trireme {

ExchangeMethod all_reduce_method();
ExchangeMethod atomo_method();
ExchangeMethod dgc_method();
ExchangeMethod one_bit_adam_method();
ExchangeMethod one_bit_method();
ExchangeMethod power_sgd_method();
ExchangeMethod pruned_ring_method();
ExchangeMethod qsgd_method();
ExchangeMethod shared_pattern_method();
ExchangeMethod signum_method();
ExchangeMethod terngrad_method();
ExchangeMethod threshold_method();
ExchangeMethod top_k_method();

// The sum of what all ranks have, one bit an element: of each row (an index of the first dim) and two means,
// at the ranks and again at the owner of the row. What either leaves out is kept and added the next time.
NextMove one_bit_sum(Addend& x, ValueId addend, const std::function<NextMove(ValueId sum)>& then);

}  // namespace trireme

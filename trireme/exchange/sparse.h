// What methods have in common that send some elements of a gradient with their indices.
#pragma once

#include <functional>
#include <vector>

#include "trireme/exchange/method.h"

namespace trireme {

// As many as a ratio says, one at least.
int64_t kept_elements(const Shape& shape, double ratio);

// All ranks get what each has `kept` (the results of top_k, of all of the gradient), with indices in the
// `code` that the settings name; `then` continues with the flat sum.
NextMove send_sparse(Addend& x, const std::vector<ValueId>& kept, std::function<NextMove(ValueId sum)> then);

// Bytes that a rank sends so of `kept` elements.
double bytes_of_sparse(const Shape& shape, int64_t ranks, int64_t kept, const ExchangeSettings& settings);

}  // namespace trireme

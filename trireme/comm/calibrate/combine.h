// Several measurements of one thing become one.
#pragma once

#include <span>

#include "trireme/comm/collective/link_model.h"

namespace trireme::comm {

// Point by point, and rising with the size where more bytes cannot take less time. The models have the same
// curves, with points at the same sizes; there is one at least.
LinkModel median_of(std::span<const LinkModel> models);

}  // namespace trireme::comm

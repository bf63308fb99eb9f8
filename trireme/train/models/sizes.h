// Sizes of a model that follow from others where they are automatic.
#pragma once

#include "trireme/train/options.h"

namespace trireme {

// The options with kv_heads and feed_forward as the model takes them.
ModelOptions with_automatic_sizes(ModelOptions options);

}  // namespace trireme

// What 0 stands for in the sizes of transformers.
#include "trireme/train/models/sizes.h"

namespace trireme {

ModelOptions with_automatic_sizes(ModelOptions options) {
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.feed_forward > 0) return options;
  // Llama's is two thirds of 4·hidden, so that three matrices weigh as much as the two of GPT-2.
  options.feed_forward =
      options.family == "llama" ? (8 * options.hidden / 3 + 31) / 32 * 32 : 4 * options.hidden;
  return options;
}

}  // namespace trireme

// See transformer.h.
#include "trireme/models/transformer.h"

#include <fmt/format.h>

#include "trireme/base/text.h"

namespace trireme {

std::vector<std::string> head_problems(const ModelOptions& options) {
  if (options.hidden % options.heads == 0) return {};
  return {
      fmt::format("model.hidden = {} cannot be shared evenly by model.heads = {}; try hidden {}, or heads {}",
                  options.hidden, options.heads, multiples_near(options.heads, options.hidden),
                  divisors_near(options.hidden, options.heads))};
}

}  // namespace trireme

// See ids.h. One line for each op that takes ids from a batch; backward ops are given the same ones.
#include "trireme/ops/ids.h"

#include <algorithm>
#include <iterator>

namespace trireme {
namespace {

struct TakesIds {
  std::string_view op;
  int ids, of;             // inputs: the ids, and what they number
  int dim;                 // of that one, from its end where below 0
  std::string_view whole;  // the attribute that says how many there are, where this is a part of them
  std::string_view what;
  enum class Ignores { kNone, kOne } ignores;
  int64_t more = 0;  // a length may be as large as what it counts
};

constexpr TakesIds kTakesIds[] = {
    {"embedding", 1, 0, 0, "whole_rows", "rows of a table", TakesIds::Ignores::kNone},
    {"cross_entropy", 1, 0, -1, "classes", "classes", TakesIds::Ignores::kOne},
    {"cross_entropy_sums", 1, 0, -1, "classes", "classes", TakesIds::Ignores::kOne},
    {"cross_entropy_with_grad", 1, 0, -1, "classes", "classes", TakesIds::Ignores::kOne},
    {"ctc_loss", 1, 0, 2, "", "classes", TakesIds::Ignores::kOne},
    {"ctc_loss", 2, 0, 1, "", "numbers of frames", TakesIds::Ignores::kNone, 1},
    {"ctc_loss", 3, 1, 1, "", "numbers of labels", TakesIds::Ignores::kNone, 1},
    {"attention_padded", 3, 1, 1, "", "lengths of sources", TakesIds::Ignores::kNone, 1},
};

}  // namespace

std::optional<IdRange> id_range(const Graph& graph, const Node& node, int input) {
  const auto found = std::ranges::find_if(
      kTakesIds, [&](const TakesIds& takes) { return takes.op == node.op->name && takes.ids == input; });
  if (found == std::end(kTakesIds)) return std::nullopt;
  const Shape& shape = graph.type(node.inputs[found->of]).shape;
  const int64_t here = shape[found->dim < 0 ? shape.rank() + found->dim : found->dim];
  IdRange range{
      .below = node.attrs.integer(found->whole, here) + found->more, .ignored = {}, .what = found->what};
  if (found->ignores == TakesIds::Ignores::kOne) range.ignored = node.attrs.integer("ignore_index", -1);
  return range;
}

}  // namespace trireme

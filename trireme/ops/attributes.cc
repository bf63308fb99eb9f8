// See attributes.h.
#include "trireme/ops/attributes.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

struct Known {
  std::string_view ops, attributes;  // words
};

constexpr Known kKnown[] = {
    {"neg exp log sqrt rsqrt tanh erf sigmoid relu gelu silu add sub mul div select softmax write_at", ""},
    {"affine", "scale shift"},
    {"compare", "kind"},
    {"cast", "to"},
    {"sum max mean", "dims"},
    {"sum_squares", "of"},
    {"reshape", "shape"},
    {"transpose", "perm"},
    {"broadcast", "shape dims"},
    {"slice", "dim start size"},
    {"split", "dim sizes"},
    {"concat", "dim"},
    {"pad", "dim low high"},
    {"matmul", "transpose_a transpose_b epilogue"},
    {"conv2d", "stride padding dilation groups"},
    {"max_pool2d avg_pool2d", "kernel stride padding"},
    {"layer_norm rms_norm batch_norm_inference", "eps"},
    {"batch_norm", "groups all_groups eps momentum"},
    {"embedding", "row_offset whole_rows"},
    {"attention", "causal scale offset pieces pieces_dim stride"},
    {"attention_at attention_padded", "scale"},
    {"rope", "base offset inverse pieces pieces_dim stride"},
    {"rope_at", "base offset"},
    {"cross_entropy", "ignore_index label_smoothing"},
    {"ctc_loss", "blank"},
    {"dropout", "rate stream offset whole pieces pieces_dim stride"},
    {"matmul_f32", "transpose_a transpose_b"},
    {"matmul_slots", "transpose_b rows"},
    {"route", "k scores normalise scale expert_groups top_groups"},
    {"slots", "experts capacity order stream offset"},
    {"balance", "alpha z scores choices"},
    {"slots_used", "experts capacity expert_offset"},
    {"dispatch", "experts capacity expert_offset"},
    {"combine", "expert_offset"},
};

// Null for an op that is none of these.
const Known* known_of(std::string_view op) {
  const auto found = std::ranges::find_if(kKnown, [&](const Known& known) {
    const std::vector<std::string> ops = split(known.ops, ' ');
    return std::ranges::find(ops, op) != ops.end();
  });
  return found == std::end(kKnown) ? nullptr : found;
}

}  // namespace

bool has_known_attributes(std::string_view op) {
  return known_of(op) != nullptr;
}

void check_attributes(std::string_view op, const Attrs& attrs) {
  if (attrs.empty()) return;
  const Known* known = known_of(op);
  if (!known) return;
  const std::vector<std::string> names =
      known->attributes.empty() ? std::vector<std::string>() : split(known->attributes, ' ');
  for (const auto& [name, value] : attrs.items()) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw_error("[{}] there is no attribute '{}'; {}", op, name,
                names.empty() ? "this op has none" : suggestion(name, names));
  }
}

}  // namespace trireme

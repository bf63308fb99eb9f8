// The list of all records, and the helpers that their files share.
#include "trireme/ops/table.h"

#include "trireme/base/error.h"
#include "trireme/ops/records.h"

namespace trireme {

const OpTable& ops() {
  static const OpTable table = [] {
    OpTable t;
    for (auto add : {add_attention, add_batch_norm,    add_binary,
                     add_bits,      add_collective,    add_collective_start,
                     add_conv2d,    add_cross_entropy, add_ctc_loss,
                     add_dispatch,  add_dropout,       add_embedding,
                     add_map,       add_matmul,        add_matmul_slots,
                     add_norm,      add_optimizer,     add_orthogonalise,
                     add_pool2d,    add_quantise,      add_reduce,
                     add_residual,  add_rice,          add_rope,
                     add_route,     add_shape,         add_softmax,
                     add_sparse,    add_svd_sample,    add_unary}) {
      add(t);
    }
    return t;
  }();
  return table;
}

Shape checked_shape(const OpInstance& op, const std::vector<int64_t>& dims) {
  if (dims.size() > Shape::kMaxDims)
    throw_error("[{}] shape has {} dims, at most {} are possible", op.op, dims.size(), Shape::kMaxDims);
  for (int64_t extent : dims) {
    if (extent < 0) throw_error("[{}] extent {} in shape is negative", op.op, extent);
  }
  const Shape shape(dims);
  if (!has_possible_size(shape))
    throw_error("[{}] the shape {} has more than 2^48 elements", op.op, to_string(shape));
  return shape;
}

void add_exchange_op(OpTable& table, std::string_view name, IndexRule (*index)(const OpInstance&),
                     std::vector<DTypeRule> inputs, std::vector<DTypeRule> outputs,
                     std::vector<std::string_view> numbers, std::vector<InPlace> in_place) {
  table.add({.name = name,
             .index = index,
             .inputs = std::move(inputs),
             .outputs = std::move(outputs),
             .numbers = std::move(numbers),
             .gradient = kExchangeOp,
             .in_place = std::move(in_place)});
}

std::string index_names(int rank, std::string_view stem) {
  std::string names;
  for (int i = 0; i < rank; ++i) names += (i ? " " : "") + std::string(stem) + std::to_string(i);
  return names;
}

ValueId sum_to_suffix(GradBuilder& g, ValueId gradient, ValueId like) {
  const int extra = g.shape(gradient).rank() - g.shape(like).rank();
  if (extra == 0) return gradient;
  std::vector<int64_t> dims;
  for (int i = 0; i < extra; ++i) dims.push_back(i);
  return g.op("sum", {gradient}, {{"dims", dims}});
}

Attrs with(Attrs attrs, std::initializer_list<std::pair<std::string, AttrValue>> more) {
  for (const auto& [name, value] : more) attrs.set(name, value);
  return attrs;
}

}  // namespace trireme

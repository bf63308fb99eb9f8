// Indices that ascend as Rice codes of their gaps, in as many bytes as these need at most. Bits past the end
// of the bytes are 0, and what would be no index is the last one.
#include "trireme/ops/code_lengths.h"
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

int64_t rice_bytes_of(const OpInstance& op, int64_t count) {
  const int64_t size = op.attrs.integer("size"), low_bits = op.attrs.integer("low_bits");
  if (count < 0 || size < count || size > (int64_t{1} << 31))
    throw_error("[{}] {} indices below {}; not more indices than there are, and those below 2^31, expected",
                op.op, count, size);
  if (low_bits < 0 || low_bits > 30) throw_error("[{}] low_bits is {}, 0 to 30 expected", op.op, low_bits);
  return rice_bytes(count, size, low_bits);
}

IndexRule rice_pack_rule(const OpInstance& op) {
  const int64_t count = op.inputs.empty() || op.shape(0).rank() != 1 ? 0 : op.shape(0)[0];
  return rule(op, "indices[k] -> codes[m]"_rule).whole("k m").size("m", rice_bytes_of(op, count));
}

IndexRule rice_unpack_rule(const OpInstance& op) {
  const int64_t count = op.attrs.integer("count"), bytes = rice_bytes_of(op, count);
  IndexRule result = rule(op, "codes[p m] -> indices[p k]"_rule).whole("p m k").size("k", count);
  if (op.shape(0)[1] != bytes)
    throw_error("[{}] codes {} are not those of {} indices, which are {} bytes", op.op,
                to_string(op.shape(0)), count, bytes);
  return result;
}

}  // namespace

void add_rice(OpTable& table) {
  add_exchange_op(table, "rice_pack", rice_pack_rule, {kI32}, {kU8}, {"size", "low_bits"});
  add_exchange_op(table, "rice_unpack", rice_unpack_rule, {kU8}, {kI32}, {"size", "low_bits", "count"});
}

}  // namespace trireme

// Signs, eight to a byte: of a vector as they are, and of rows with the mean of what is negative and of what
// is not. Bit i of byte j is that of element 8j + i; bits past the last element are 0.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

int64_t bytes_for(int64_t bits) {
  return (bits + 7) / 8;
}

void expect_at_least(const OpInstance& op, std::string_view attribute, int64_t found, int64_t least) {
  if (found < least) throw_error("[{}] {} is {}, {} or more expected", op.op, attribute, found, least);
}

IndexRule sign_pack_rule(const OpInstance& op) {
  const int64_t bytes = checked_shape(op, {op.attrs.integer("bytes")})[0];
  IndexRule result = rule(op, "x[n] -> bits[m]"_rule).whole("n m").size("m", bytes);
  expect_at_least(op, "bytes", bytes, bytes_for(op.shape(0)[0]));
  return result;
}

IndexRule sign_unpack_rule(const OpInstance& op) {
  const int64_t size = checked_shape(op, {op.attrs.integer("size")})[0];
  IndexRule result = rule(op, "bits[m] unit[] -> y[n]"_rule).whole("m n").size("n", size);
  if (size > 8 * op.shape(0)[0])
    throw_error("[{}] size is {}, but there are {} bits", op.op, size, 8 * op.shape(0)[0]);
  return result;
}

IndexRule one_bit_pack_rule(const OpInstance& op) {
  const int64_t rows = checked_shape(op, {op.attrs.integer("rows")})[0];
  const int64_t columns = op.inputs.size() == 1 && op.shape(0).rank() == 2 ? op.shape(0)[1] : 0;
  IndexRule result = rule(op, "x[g c] -> bits[h b] means[h two]"_rule)
                         .whole("g c h b two")
                         .size("h", rows)
                         .size("b", bytes_for(columns))
                         .size("two", 2);
  expect_at_least(op, "rows", rows, op.shape(0)[0]);
  return result;
}

IndexRule one_bit_unpack_rule(const OpInstance& op) {
  const Shape shape = checked_shape(op, {op.attrs.integer("rows"), op.attrs.integer("columns")});
  IndexRule result = rule(op, "bits[h b] means[h two] -> x[g c]"_rule)
                         .whole("h b two g c")
                         .size("g", shape[0])
                         .size("c", shape[1]);
  if (shape[0] > op.shape(0)[0] || bytes_for(shape[1]) != op.shape(0)[1] || op.shape(1)[1] != 2)
    throw_error("[{}] bits {} and means {} are not those of rows {}", op.op, to_string(op.shape(0)),
                to_string(op.shape(1)), to_string(shape));
  return result;
}

}  // namespace

void add_bits(OpTable& table) {
  add_exchange_op(table, "sign_pack", sign_pack_rule, {kF32}, {kU8});
  add_exchange_op(table, "sign_vote", written<"bits[p m] -> votes[m]", "p">, {kU8}, {kU8});
  add_exchange_op(table, "sign_unpack", sign_unpack_rule, {kU8, kF32}, {kF32});
  add_exchange_op(table, "one_bit_pack", one_bit_pack_rule, {kF32}, {kU8, kF32});
  add_exchange_op(table, "one_bit_unpack", one_bit_unpack_rule, {kU8, kF32}, {kF32});
}

}  // namespace trireme

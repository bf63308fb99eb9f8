// Elements as a few bits: nothing or ± a limit (two bits: 0 nothing, 1 plus, 2 minus), and levels of the norm
// of a bucket, each in as many bits or, with `elias`, in a code that is shorter for low levels. Where chance
// decides, numbers are those of rng.h, keyed by (seed, stream + step·0x9E3779B97F4A7C15).
#include "trireme/ops/code_lengths.h"
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

constexpr int64_t kCodesPerByte = 4;  // of two bits

int64_t parts(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

IndexRule pack_rule(const OpInstance& op, const WrittenRule& written) {
  const int64_t elements = op.inputs.empty() || op.shape(0).rank() != 1 ? 0 : op.shape(0)[0];
  return rule(op, written).whole("n m").size("m", parts(elements, kCodesPerByte));
}

IndexRule ternary_unpack_rule(const OpInstance& op) {
  const int64_t size = checked_shape(op, {op.attrs.integer("size")})[0];
  IndexRule result = rule(op, "codes[p m] limit[] -> y[n]"_rule).whole("p m n").size("n", size);
  if (op.shape(0)[1] != parts(size, kCodesPerByte))
    throw_error("[{}] codes {} are not those of {} elements", op.op, to_string(op.shape(0)), size);
  return result;
}

struct Buckets {
  int64_t count, bytes;  // of codes, in each
};
Buckets buckets_of(const OpInstance& op, int64_t elements) {
  const int64_t bits = op.attrs.integer("bits"), bucket = op.attrs.integer("bucket");
  if (bits < 2 || bits > 8) throw_error("[{}] bits is {}, 2 to 8 expected", op.op, bits);
  if (bucket < 1 || bucket > (int64_t{1} << 30))
    throw_error("[{}] bucket is {}, 1 to 2^30 elements expected", op.op, bucket);
  const bool elias = op.attrs.integer("elias", 0) != 0;
  return {parts(elements, bucket),
          elias ? elias_bytes(bucket, (1 << (bits - 1)) - 1) : parts(bucket * bits, 8)};
}

IndexRule quantise_rule(const OpInstance& op) {
  const int64_t elements = op.inputs.empty() || op.shape(0).rank() != 1 ? 0 : op.shape(0)[0];
  const Buckets buckets = buckets_of(op, elements);
  return rule(op, "x[n] step[] -> codes[m] norms[b]"_rule)
      .whole("n m b")
      .size("m", buckets.count * buckets.bytes)
      .size("b", buckets.count);
}

IndexRule dequantise_rule(const OpInstance& op) {
  const int64_t size = checked_shape(op, {op.attrs.integer("size")})[0];
  const Buckets buckets = buckets_of(op, size);
  IndexRule result = rule(op, "codes[p m] norms[p b] -> y[n]"_rule).whole("p m b n").size("n", size);
  if (op.shape(0)[1] != buckets.count * buckets.bytes || op.shape(1)[1] != buckets.count)
    throw_error("[{}] codes {} and norms {} are not those of {} elements", op.op, to_string(op.shape(0)),
                to_string(op.shape(1)), size);
  return result;
}

}  // namespace

void add_quantise(OpTable& table) {
  add_exchange_op(table, "threshold_pack",
                  [](const OpInstance& op) { return pack_rule(op, "x[n] limit[] -> codes[m]"_rule); },
                  {kF32, kF32}, {kU8});
  add_exchange_op(table, "ternary_pack",
                  [](const OpInstance& op) { return pack_rule(op, "x[n] limit[] step[] -> codes[m]"_rule); },
                  {kF32, kF32, kF32}, {kU8}, {"seed", "stream"});
  add_exchange_op(table, "ternary_unpack", ternary_unpack_rule, {kU8, kF32}, {kF32});
  add_exchange_op(table, "quantise", quantise_rule, {kF32, kF32}, {kU8, kF32}, {"seed", "stream"});
  add_exchange_op(table, "dequantise", dequantise_rule, {kU8, kF32}, {kF32});
}

}  // namespace trireme

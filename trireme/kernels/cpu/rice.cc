// rice_pack and rice_unpack. Codes of one row follow each other, so that a row is one thread's.
#include <algorithm>
#include <bit>

#include "trireme/kernels/cpu/bit_stream.h"
#include "trireme/kernels/cpu/context.h"

namespace trireme::cpu {
namespace {

constexpr int kOnesAtOnce = 32;

void rice_pack(const KernelContext& context) {
  const int low_bits = static_cast<int>(context.attrs.integer("low_bits"));
  const uint64_t low = (uint64_t{1} << low_bits) - 1;
  const int32_t* indices = context.in<int32_t>(0);
  BitWriter writer({context.out<uint8_t>(0), static_cast<size_t>(context.outputs[0].elements())});
  int64_t next = 0;  // the least that the index can be
  for (int64_t i = 0; i < context.inputs[0].elements(); ++i) {
    TRIREME_CHECK(indices[i] >= next);
    const auto gap = static_cast<uint64_t>(indices[i] - next);
    uint64_t ones = gap >> low_bits;
    for (; ones >= kOnesAtOnce; ones -= kOnesAtOnce)
      writer.append((uint64_t{1} << kOnesAtOnce) - 1, kOnesAtOnce);
    writer.append((uint64_t{1} << ones) - 1, static_cast<int>(ones) + 1);
    writer.append(gap & low, low_bits);
    next = int64_t{indices[i]} + 1;
  }
  writer.finish();
}

void unpack_row(std::span<const uint8_t> codes, int low_bits, int64_t size, std::span<int32_t> indices) {
  const uint64_t low = (uint64_t{1} << low_bits) - 1;
  BitReader reader(codes);
  int64_t next = 0;
  for (int32_t& index : indices) {
    int64_t ones = 0;
    for (int more = kOnesAtOnce; more == kOnesAtOnce; ones += more) {
      more = std::min(std::countr_one(reader.peek()), kOnesAtOnce);
      reader.skip(more);
    }
    reader.skip(1);
    const auto rest = static_cast<int64_t>(reader.peek() & low);
    reader.skip(low_bits);
    next = std::min(size - 1, next + (ones << low_bits) + rest);
    index = static_cast<int32_t>(next++);
  }
}

void rice_unpack(const KernelContext& context) {
  const int64_t bytes = context.inputs[0].shape[1], count = context.outputs[0].shape[1];
  const int low_bits = static_cast<int>(context.attrs.integer("low_bits"));
  const int64_t size = context.attrs.integer("size");
  pool_of(context).parallel_for(context.inputs[0].shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      unpack_row({context.in<uint8_t>(0) + row * bytes, static_cast<size_t>(bytes)}, low_bits, size,
                 {context.out<int32_t>(0) + row * count, static_cast<size_t>(count)});
  });
}

}  // namespace

void add_rice(KernelTable& table) {
  add_for_all_dtypes(table, "rice_pack", {rice_pack});
  add_for_all_dtypes(table, "rice_unpack", {rice_unpack});
}

}  // namespace trireme::cpu

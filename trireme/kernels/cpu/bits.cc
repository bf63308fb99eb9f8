// Signs packed, voted on and unpacked, byte by byte; and rows of signs with two means.
#include <algorithm>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"

namespace trireme::cpu {
namespace {

constexpr int64_t kByteGrain = kElementGrain / 8;

// The signs of up to eight elements.
uint8_t packed(const float* x, int64_t count) {
  uint8_t byte = 0;
  for (int64_t i = 0; i < std::min<int64_t>(8, count); ++i) byte |= static_cast<uint8_t>((x[i] >= 0) << i);
  return byte;
}

void sign_pack(const KernelContext& context) {
  const float* x = context.in<float>(0);
  const int64_t n = context.inputs[0].elements();
  uint8_t* bits = context.out<uint8_t>(0);
  pool_of(context).parallel_for(context.outputs[0].elements(), kByteGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) bits[i] = packed(x + 8 * i, n - 8 * i);
  });
}

void sign_vote(const KernelContext& context) {
  const int64_t rows = context.inputs[0].shape[0], bytes = context.inputs[0].shape[1];
  const uint8_t* bits = context.in<uint8_t>(0);
  uint8_t* votes = context.out<uint8_t>(0);
  pool_of(context).parallel_for(bytes, kByteGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint8_t byte = 0;
      for (int bit = 0; bit < 8; ++bit) {
        int64_t set = 0;
        for (int64_t row = 0; row < rows; ++row) set += (bits[row * bytes + i] >> bit) & 1;
        const bool first = rows > 0 && ((bits[i] >> bit) & 1);
        byte |= static_cast<uint8_t>((2 * set > rows || (2 * set == rows && first)) << bit);
      }
      votes[i] = byte;
    }
  });
}

void sign_unpack(const KernelContext& context) {
  const uint8_t* bits = context.in<uint8_t>(0);
  const float unit = *context.in<float>(1);
  float* y = context.out<float>(0);
  pool_of(context).parallel_for(context.outputs[0].elements(), kElementGrain,
                                [&](int64_t begin, int64_t end) {
                                  for (int64_t i = begin; i < end; ++i)
                                    y[i] = (bits[i / 8] >> (i % 8)) & 1 ? unit : -unit;
                                });
}

void one_bit_pack(const KernelContext& context) {
  const int64_t rows = context.inputs[0].shape[0], columns = context.inputs[0].shape[1];
  const int64_t all_rows = context.outputs[0].shape[0], bytes = context.outputs[0].shape[1];
  const float* x = context.in<float>(0);
  uint8_t* bits = context.out<uint8_t>(0);
  float* means = context.out<float>(1);
  pool_of(context).parallel_for(all_rows, row_grain(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t here = row < rows ? columns : 0;  // rows that fill up are empty
      double sums[2] = {0, 0};
      int64_t counts[2] = {0, 0};
      for (int64_t i = 0; i < here; ++i) {
        const int side = x[row * columns + i] >= 0;
        sums[side] += static_cast<double>(x[row * columns + i]);
        ++counts[side];
      }
      for (const int side : {0, 1})
        means[2 * row + side] =
            counts[side] == 0 ? 0 : static_cast<float>(sums[side] / static_cast<double>(counts[side]));
      for (int64_t i = 0; i < bytes; ++i)
        bits[row * bytes + i] = here == 0 ? uint8_t{0} : packed(x + row * columns + 8 * i, columns - 8 * i);
    }
  });
}

void one_bit_unpack(const KernelContext& context) {
  const int64_t rows = context.outputs[0].shape[0], columns = context.outputs[0].shape[1];
  const int64_t bytes = context.inputs[0].shape[1];
  const uint8_t* bits = context.in<uint8_t>(0);
  const float* means = context.in<float>(1);
  float* x = context.out<float>(0);
  pool_of(context).parallel_for(rows, row_grain(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < columns; ++i)
        x[row * columns + i] = means[2 * row + ((bits[row * bytes + i / 8] >> (i % 8)) & 1)];
    }
  });
}

}  // namespace

void add_bits(KernelTable& table) {
  table.add("sign_pack", DType::f32, {sign_pack});
  add_for_all_dtypes(table, "sign_vote", {sign_vote});
  table.add("sign_unpack", DType::f32, {sign_unpack});
  table.add("one_bit_pack", DType::f32, {one_bit_pack});
  table.add("one_bit_unpack", DType::f32, {one_bit_unpack});
}

}  // namespace trireme::cpu

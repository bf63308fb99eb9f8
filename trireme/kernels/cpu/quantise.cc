// Codes of two bits and of levels, packed and unpacked. Whether chance rounds up is decided in double
// precision from the number of the element, so that no thread and no part of the work matters.
#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/base/rng.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"

namespace trireme::cpu {
namespace {

constexpr int64_t kByteGrain = kElementGrain / 4;

// Numbers of one step.
RngKey key_of(const Attrs& attrs, float step) {
  return {static_cast<uint64_t>(attrs.integer("seed")),
          static_cast<uint64_t>(attrs.integer("stream")) + static_cast<uint64_t>(step) * 0x9E3779B97F4A7C15u};
}

// Numbers of elements one after another, as uniform() has them, each block of four made once.
class Draws {
 public:
  explicit Draws(RngKey key) : key_(key) {}
  double at(int64_t i) {
    if (i / 4 != block_) {
      block_ = i / 4;
      words_ = random_words(key_, static_cast<uint64_t>(block_));
    }
    return static_cast<double>(words_[static_cast<size_t>(i % 4)] >> 8) * 0x1p-24;
  }

 private:
  RngKey key_;
  int64_t block_ = -1;
  std::array<uint32_t, 4> words_{};
};

// Two bits an element: code_of() gives each range of work what answers for its elements, in their order.
template <typename CodeOf>
void pack_pairs(const KernelContext& context, const CodeOf& code_of) {
  const int64_t n = context.inputs[0].elements();
  uint8_t* codes = context.out<uint8_t>(0);
  pool_of(context).parallel_for(context.outputs[0].elements(), kByteGrain, [&](int64_t begin, int64_t end) {
    auto code = code_of();
    for (int64_t i = begin; i < end; ++i) {
      uint32_t byte = 0;
      for (int64_t e = 4 * i; e < std::min(n, 4 * i + 4); ++e) byte |= code(e) << (2 * (e - 4 * i));
      codes[i] = static_cast<uint8_t>(byte);
    }
  });
}

void threshold_pack(const KernelContext& context) {
  const float* x = context.in<float>(0);
  const float limit = *context.in<float>(1);
  pack_pairs(context, [=] {
    return [=](int64_t i) { return x[i] >= limit ? 1u : x[i] <= -limit ? 2u : 0u; };
  });
}

void ternary_pack(const KernelContext& context) {
  const float* x = context.in<float>(0);
  const double limit = static_cast<double>(*context.in<float>(1));
  const RngKey key = key_of(context.attrs, *context.in<float>(2));
  pack_pairs(context, [=] {
    return [=, draws = Draws(key)](int64_t i) mutable {
      return draws.at(i) * limit < std::abs(static_cast<double>(x[i])) ? (x[i] < 0 ? 2u : 1u) : 0u;
    };
  });
}

// What the four codes of each byte say: nothing, 1 or −1.
constexpr std::array<std::array<int8_t, 4>, 256> kSigns = [] {
  std::array<std::array<int8_t, 4>, 256> signs{};
  for (size_t byte = 0; byte < 256; ++byte) {
    for (size_t e = 0; e < 4; ++e) {
      const size_t code = (byte >> (2 * e)) & 3;
      signs[byte][e] = static_cast<int8_t>(static_cast<int>(code & 1) - static_cast<int>(code >> 1));
    }
  }
  return signs;
}();

void ternary_unpack(const KernelContext& context) {
  const int64_t rows = context.inputs[0].shape[0], bytes = context.inputs[0].shape[1];
  const int64_t n = context.outputs[0].elements();
  const uint8_t* codes = context.in<uint8_t>(0);
  const float limit = *context.in<float>(1);
  float* y = context.out<float>(0);
  pool_of(context).parallel_for(bytes, kByteGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::array<int32_t, 4> sums{};
      for (int64_t row = 0; row < rows; ++row) {
        const std::array<int8_t, 4>& signs = kSigns[codes[row * bytes + i]];
        for (size_t e = 0; e < 4; ++e) sums[e] += signs[e];
      }
      for (int64_t e = 0; e < std::min<int64_t>(4, n - 4 * i); ++e)
        y[4 * i + e] = static_cast<float>(sums[static_cast<size_t>(e)]) * limit;
    }
  });
}

// A tensor of `elements` cut in buckets of codes.
struct Buckets {
  Buckets(const Attrs& attrs, int64_t elements)
      : bits(static_cast<int>(attrs.integer("bits"))),
        size(attrs.integer("bucket")),
        bytes((size * bits + 7) / 8),
        levels((1 << (bits - 1)) - 1),
        n(elements) {}
  int64_t begin(int64_t bucket) const { return bucket * size; }
  int64_t end(int64_t bucket) const { return std::min(n, (bucket + 1) * size); }

  int bits;
  int64_t size, bytes;
  int levels;
  int64_t n;
};

// Into bytes that are 0 from there on.
void write_bits(uint8_t* bytes, int64_t at, int bits, uint32_t code) {
  const uint32_t two = code << (at % 8);
  bytes[at / 8] |= static_cast<uint8_t>(two);
  if (at % 8 + bits > 8) bytes[at / 8 + 1] = static_cast<uint8_t>(two >> 8);
}
uint32_t read_bits(const uint8_t* bytes, int64_t at, int bits) {
  uint32_t two = bytes[at / 8];
  if (at % 8 + bits > 8) two |= uint32_t{bytes[at / 8 + 1]} << 8;
  return (two >> (at % 8)) & ((1u << bits) - 1);
}

void quantise(const KernelContext& context) {
  const float* x = context.in<float>(0);
  const RngKey key = key_of(context.attrs, *context.in<float>(1));
  const Buckets buckets(context.attrs, context.inputs[0].elements());
  uint8_t* codes = context.out<uint8_t>(0);
  float* norms = context.out<float>(1);
  pool_of(context).parallel_for(
      context.outputs[1].elements(), row_grain(buckets.size), [&](int64_t first, int64_t last) {
        Draws draws(key);
        for (int64_t bucket = first; bucket < last; ++bucket) {
          double squares = 0;
          for (int64_t i = buckets.begin(bucket); i < buckets.end(bucket); ++i)
            squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
          norms[bucket] = static_cast<float>(std::sqrt(squares));
          uint8_t* to = codes + bucket * buckets.bytes;
          std::fill_n(to, buckets.bytes, uint8_t{0});
          if (!(norms[bucket] > 0)) continue;
          const double steepness = buckets.levels / static_cast<double>(norms[bucket]);
          for (int64_t i = buckets.begin(bucket); i < buckets.end(bucket); ++i) {
            const double level =
                std::min<double>(buckets.levels, std::abs(static_cast<double>(x[i])) * steepness);
            const auto below = static_cast<uint32_t>(level);
            const uint32_t rounded = below + (draws.at(i) < level - below);
            write_bits(to, (i - buckets.begin(bucket)) * buckets.bits, buckets.bits,
                       rounded | (x[i] < 0 ? 1u << (buckets.bits - 1) : 0u));
          }
        }
      });
}

// Adds what code(i) stands for to each element: its lower bits are the level, its highest the sign.
template <typename Code>
void add_levels(float* y, int64_t elements, int bits, float unit, const Code& code) {
  const uint32_t minus = 1u << (bits - 1);
  for (int64_t i = 0; i < elements; ++i) {
    const uint32_t here = code(i);
    const float size = unit * static_cast<float>(static_cast<int32_t>(here & (minus - 1)));
    y[i] += here & minus ? -size : size;
  }
}

void dequantise(const KernelContext& context) {
  const int64_t rows = context.inputs[0].shape[0], bytes = context.inputs[0].shape[1];
  const int64_t count = context.inputs[1].shape[1];
  const uint8_t* codes = context.in<uint8_t>(0);
  const float* norms = context.in<float>(1);
  float* y = context.out<float>(0);
  const Buckets buckets(context.attrs, context.outputs[0].elements());
  pool_of(context).parallel_for(count, row_grain(buckets.size), [&](int64_t first, int64_t last) {
    for (int64_t bucket = first; bucket < last; ++bucket) {
      std::fill(y + buckets.begin(bucket), y + buckets.end(bucket), 0.0f);
      for (int64_t row = 0; row < rows; ++row) {
        const uint8_t* from = codes + row * bytes + bucket * buckets.bytes;
        const float unit = norms[row * count + bucket] / static_cast<float>(buckets.levels);
        float* const to = y + buckets.begin(bucket);
        const int64_t elements = buckets.end(bucket) - buckets.begin(bucket);
        if (buckets.bits == 4) {  // two codes a byte, none in two bytes
          add_levels(to, elements, 4, unit, [from](int64_t i) { return from[i / 2] >> (4 * (i % 2)) & 15u; });
        } else {
          add_levels(to, elements, buckets.bits, unit,
                     [&](int64_t i) { return read_bits(from, i * buckets.bits, buckets.bits); });
        }
      }
    }
  });
}

}  // namespace

void add_quantise(KernelTable& table) {
  table.add("threshold_pack", DType::f32, {threshold_pack});
  table.add("ternary_pack", DType::f32, {ternary_pack});
  table.add("ternary_unpack", DType::f32, {ternary_unpack});
  table.add("quantise", DType::f32, {quantise});
  table.add("dequantise", DType::f32, {dequantise});
}

}  // namespace trireme::cpu

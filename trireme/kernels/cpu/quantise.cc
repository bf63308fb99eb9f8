// Codes of two bits and of levels, packed and unpacked. Whether chance rounds up is decided in double
// precision from the number of the element, so that no thread and no part of the work matters; with Elias'
// codes from that of the bucket: where it, and 1 more, 2 more, … fall on the fractions put side by side. Each
// element is then rounded up as often as before, but what a bucket's levels add up to has a bound, and so
// have their codes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "trireme/base/rng.h"
#include "trireme/kernels/cpu/bit_stream.h"
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
    return [=, draws = UniformDraws(key)](int64_t i) mutable {
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

// A tensor of `elements` cut in `count` buckets, with `bytes` of codes in all.
struct Buckets {
  Buckets(const Attrs& attrs, int64_t elements, int64_t in_all, int64_t all_bytes)
      : bits(static_cast<int>(attrs.integer("bits"))),
        size(attrs.integer("bucket")),
        count(in_all),
        bytes(in_all == 0 ? 0 : all_bytes / in_all),
        levels((1 << (bits - 1)) - 1),
        elias(attrs.integer("elias", 0) != 0),
        n(elements) {}
  int64_t begin(int64_t bucket) const { return bucket * size; }
  int64_t end(int64_t bucket) const { return std::min(n, (bucket + 1) * size); }
  int64_t elements(int64_t bucket) const { return end(bucket) - begin(bucket); }

  int bits;
  int64_t size, count, bytes;  // of each
  int levels;
  bool elias;
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

// Rounds and writes the levels of a bucket, each by a number of its own.
void write_levels(std::span<const float> x, int64_t first, const Buckets& of, double steepness,
                  UniformDraws& draws, uint8_t* to) {
  for (int64_t i = 0; i < std::ssize(x); ++i) {
    const double level = std::min<double>(of.levels, std::abs(static_cast<double>(x[i])) * steepness);
    const auto below = static_cast<uint32_t>(level);
    const uint32_t rounded = below + (draws.at(first + i) < level - below);
    write_bits(to, i * of.bits, of.bits, rounded | (x[i] < 0 ? 1u << (of.bits - 1) : 0u));
  }
}

// The same by one number for all of them, as Elias' gamma codes: of one more than the level as many zeros as
// it has bits behind its highest, then that and those; then the sign, unless the level is 0.
void write_elias(std::span<const float> x, const Buckets& of, double steepness, double number, uint8_t* to) {
  BitWriter writer({to, static_cast<size_t>(of.bytes)});
  for (const float value : x) {
    const double level = std::min<double>(of.levels, std::abs(static_cast<double>(value)) * steepness);
    auto rounded = static_cast<uint64_t>(level);
    number += level - static_cast<double>(rounded);
    if (number >= 1) {
      number -= 1;
      ++rounded;
    }
    if (rounded == 0) {
      writer.append(1, 1);
      continue;
    }
    const int below = std::bit_width(rounded + 1) - 1;
    const uint64_t sign = value < 0 ? 1 : 0, rest = rounded + 1 - (uint64_t{1} << below);
    writer.append((((sign << below | rest) << 1) | 1) << below, 2 * below + 2);
  }
  writer.finish();
}

// Not below what it is in double precision: levels of it would add up to more than they may.
float rounded_up(double norm) {
  const auto rounded = static_cast<float>(norm);
  return static_cast<double>(rounded) < norm ? std::nextafter(rounded, std::numeric_limits<float>::infinity())
                                             : rounded;
}

void quantise(const KernelContext& context) {
  const float* x = context.in<float>(0);
  const RngKey key = key_of(context.attrs, *context.in<float>(1));
  const Buckets buckets(context.attrs, context.inputs[0].elements(), context.outputs[1].elements(),
                        context.outputs[0].elements());
  uint8_t* codes = context.out<uint8_t>(0);
  float* norms = context.out<float>(1);
  pool_of(context).parallel_for(buckets.count, row_grain(buckets.size), [&](int64_t first, int64_t last) {
    UniformDraws draws(key);
    for (int64_t bucket = first; bucket < last; ++bucket) {
      const int64_t begin = buckets.begin(bucket);
      const std::span<const float> values(x + begin, static_cast<size_t>(buckets.elements(bucket)));
      double squares = 0;
      for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
      const double norm = std::sqrt(squares);
      norms[bucket] = buckets.elias ? rounded_up(norm) : static_cast<float>(norm);
      uint8_t* to = codes + bucket * buckets.bytes;
      std::fill_n(to, buckets.bytes, uint8_t{0});
      if (!(norms[bucket] > 0)) continue;
      const double steepness = buckets.levels / static_cast<double>(norms[bucket]);
      if (!buckets.elias)
        write_levels(values, begin, buckets, steepness, draws, to);
      else if (std::isfinite(norms[bucket]))  // a step where it is not will be skipped
        write_elias(values, buckets, steepness, draws.at(bucket), to);
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

// The next of such codes, in the form that add_levels() reads. A bucket may end before its elements do: they
// are 0.
uint32_t next_elias(BitReader& reader, int bits) {
  const uint64_t code = reader.peek();
  const int below = std::countr_zero(code);
  if (below >= bits) return 0;
  const uint64_t rest = (code >> (below + 1)) & ((uint64_t{1} << below) - 1);
  const uint32_t most = (1u << (bits - 1)) - 1;
  const uint32_t level = std::min(most, static_cast<uint32_t>((uint64_t{1} << below) + rest - 1));
  const uint64_t sign = level == 0 ? 0 : code >> (2 * below + 1) & 1;
  reader.skip(2 * below + (level == 0 ? 1 : 2));
  return level | (sign != 0 ? most + 1 : 0u);
}

void dequantise(const KernelContext& context) {
  const int64_t rows = context.inputs[0].shape[0], bytes = context.inputs[0].shape[1];
  const uint8_t* codes = context.in<uint8_t>(0);
  const float* norms = context.in<float>(1);
  float* y = context.out<float>(0);
  const Buckets buckets(context.attrs, context.outputs[0].elements(), context.inputs[1].shape[1], bytes);
  pool_of(context).parallel_for(buckets.count, row_grain(buckets.size), [&](int64_t first, int64_t last) {
    for (int64_t bucket = first; bucket < last; ++bucket) {
      std::fill(y + buckets.begin(bucket), y + buckets.end(bucket), 0.0f);
      for (int64_t row = 0; row < rows; ++row) {
        const uint8_t* from = codes + row * bytes + bucket * buckets.bytes;
        const float unit = norms[row * buckets.count + bucket] / static_cast<float>(buckets.levels);
        float* const to = y + buckets.begin(bucket);
        const int64_t elements = buckets.elements(bucket);
        if (buckets.elias) {
          BitReader reader({from, static_cast<size_t>(buckets.bytes)});
          add_levels(to, elements, buckets.bits, unit,
                     [&](int64_t) { return next_elias(reader, buckets.bits); });
        } else if (buckets.bits == 4) {  // two codes a byte, none in two bytes
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

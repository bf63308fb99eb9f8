// Counter-based random numbers (Philox 4x32, 10 rounds): a pure function of (key, counter), with no
// state to carry along. Because every element of a tensor is addressed by its index in the whole tensor,
// the numbers do not depend on how the tensor is split, on the order of work or on the thread count.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace trireme {

// What a stream of numbers belongs to. Streams with different keys are independent.
struct RngKey {
  uint64_t seed = 0;
  uint64_t stream = 0;  // an op, a parameter, an epoch: see stream_id()
};

// A stable 64-bit name for a stream (FNV-1a), e.g. stream_id("wte.weight").
constexpr uint64_t stream_id(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

// The four 32-bit words of block `counter` of the stream.
inline std::array<uint32_t, 4> random_words(RngKey key, uint64_t counter) {
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  std::array<uint32_t, 4> x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               static_cast<uint32_t>(key.stream), static_cast<uint32_t>(key.stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x[0], b = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

// Uniform in [0, 1) with 24 bits, for element `index` of the stream.
inline float uniform(RngKey key, uint64_t index) {
  return static_cast<float>(random_words(key, index / 4)[index % 4] >> 8) * 0x1p-24f;
}

// The numbers of uniform() for elements that are asked for one after another: each block of four is made
// once.
class UniformDraws {
 public:
  explicit UniformDraws(RngKey key) : key_(key) {}
  float at(uint64_t index) {
    if (index / 4 != block_) {
      block_ = index / 4;
      words_ = random_words(key_, block_);
    }
    return static_cast<float>(words_[index % 4] >> 8) * 0x1p-24f;
  }

 private:
  RngKey key_;
  uint64_t block_ = ~uint64_t{0};  // none yet: an index divided by 4 is less
  std::array<uint32_t, 4> words_{};
};

// Standard normal for element `index` of the stream (Box-Muller on one block's first two words).
inline float normal(RngKey key, uint64_t index) {
  const auto words = random_words(key, index);
  const double u = (words[0] + 1.0) * 0x1p-32, v = words[1] * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v));
}

// A uniform integer in [0, bound), for shuffling; the bias is below bound / 2^64.
inline uint64_t uniform_integer(RngKey key, uint64_t index, uint64_t bound) {
  const auto words = random_words(key, index);
  const uint64_t word = (uint64_t{words[0]} << 32) | words[1];
  return static_cast<uint64_t>((static_cast<unsigned __int128>(word) * bound) >> 64);
}

}  // namespace trireme

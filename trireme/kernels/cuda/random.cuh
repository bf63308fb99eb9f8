// The random numbers of base/rng.h on the device.
#pragma once

#include <cstdint>

namespace trireme::cuda {

// Block `counter` of the stream, as random_words() gives it.
__device__ inline uint4 random_block(uint64_t seed, uint64_t stream, uint64_t counter) {
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  uint4 x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
             static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x.x, b = uint64_t{0xCD9E8D57} * x.z;
    x = {static_cast<uint32_t>(b >> 32) ^ x.y ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x.w ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}
__device__ inline uint32_t word_of(const uint4& block, uint64_t index) {
  const uint32_t words[4] = {block.x, block.y, block.z, block.w};
  return words[index % 4];
}
// Uniform in [0, 1) with 24 bits, as uniform() gives it.
__device__ inline double uniform_at(uint64_t seed, uint64_t stream, int64_t index) {
  const uint4 block = random_block(seed, stream, static_cast<uint64_t>(index) / 4);
  return static_cast<double>(word_of(block, static_cast<uint64_t>(index)) >> 8) * 0x1p-24;
}

// What op attributes `seed` and `stream` and a step, counted in f32, key numbers by.
struct StepKey {
  uint64_t seed, stream;
  __device__ uint64_t stream_at(const float* step) const {
    return stream + static_cast<uint64_t>(*step) * 0x9E3779B97F4A7C15u;
  }
};

}  // namespace trireme::cuda

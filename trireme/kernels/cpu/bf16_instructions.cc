// Blocks of bf16 products by what the CPU has; see bf16_product.h.
#include "trireme/kernels/cpu/bf16_product.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace trireme::cpu {
namespace {

constexpr int64_t kTileElements = 512;  // of a tile of either operand

#if defined(__x86_64__) && defined(__linux__)

// Four tiles of sums, two of each operand: tile 0 to 3, 4 and 5, 6 and 7.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

__attribute__((target("amx-tile"))) void amx_begin() {
  static constexpr TileConfig kConfig;
  _tile_loadconfig(&kConfig);
}
__attribute__((target("amx-tile"))) void amx_end() {
  _tile_release();
}

__attribute__((target("amx-tile,amx-bf16"))) void amx_block(const Bf16* a, const Bf16* b, int64_t steps,
                                                            float* c) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < steps; ++step) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(5, a + kTileElements, 64);
    _tile_loadd(7, b + kTileElements, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a += 2 * kTileElements;
    b += 2 * kTileElements;
  }
  constexpr int kPitch = kBf16Side * sizeof(float);
  _tile_stored(0, c, kPitch);
  _tile_stored(1, c + 16, kPitch);
  _tile_stored(2, c + 16 * kBf16Side, kPitch);
  _tile_stored(3, c + 16 * kBf16Side + 16, kPitch);
}

// Eight rows at a time: sixteen sums, two vectors of B, and pairs of A that are spread over a vector.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void avx512_block(const Bf16* a,
                                                                                  const Bf16* b,
                                                                                  int64_t steps, float* c) {
  constexpr int kRows = 8;
  for (int64_t row = 0; row < kBf16Side; row += kRows) {
    __m512 left[kRows], right[kRows];
    for (int r = 0; r < kRows; ++r) left[r] = right[r] = _mm512_setzero_ps();
    for (int64_t step = 0; step < steps; ++step) {
      const Bf16* const from = a + (2 * step + row / 16) * kTileElements + row % 16 * kBf16Side;
      const Bf16* const pairs = b + 2 * step * kTileElements;
      for (int64_t pair = 0; pair < 16; ++pair) {
        const auto low = (__m512bh)_mm512_loadu_si512(pairs + pair * 32);
        const auto high = (__m512bh)_mm512_loadu_si512(pairs + kTileElements + pair * 32);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          int two;
          __builtin_memcpy(&two, from + r * kBf16Side + 2 * pair, sizeof two);
          const auto spread = (__m512bh)_mm512_set1_epi32(two);
          left[r] = _mm512_dpbf16_ps(left[r], spread, low);
          right[r] = _mm512_dpbf16_ps(right[r], spread, high);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      _mm512_storeu_ps(c + (row + r) * kBf16Side, left[r]);
      _mm512_storeu_ps(c + (row + r) * kBf16Side + 16, right[r]);
    }
  }
}

struct CpuFlags {
  bool amx = false, avx512_bf16 = false;

  CpuFlags() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return;
    const uint64_t saved = saved_by_the_system();
    constexpr uint64_t kVectors = 0xe6, kTiles = 0x60000;  // bits of XCR0
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    const bool vectors = (saved & kVectors) == kVectors && (b >> 16 & 1) && (b >> 30 & 1) && (b >> 31 & 1);
    amx = (saved & kTiles) == kTiles && (d >> 22 & 1) && (d >> 24 & 1) && may_use_tiles();
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) avx512_bf16 = vectors && (a >> 5 & 1);
  }

 private:
  static uint64_t saved_by_the_system() {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return uint64_t{high} << 32 | low;
  }
  // Linux gives a process the memory for tiles when it asks.
  static bool may_use_tiles() {
    constexpr int kRequest = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  }
};

#endif

void plain_block(const Bf16* a, const Bf16* b, int64_t steps, float* c) {
  for (int64_t row = 0; row < kBf16Side; ++row) {
    for (int64_t col = 0; col < kBf16Side; ++col) {
      float sum = 0;
      for (int64_t k = 0; k < steps * kBf16Side; ++k) {
        const int64_t tile = k / kBf16Side * 2, in = k % kBf16Side;
        sum += static_cast<float>(a[(tile + row / 16) * kTileElements + row % 16 * kBf16Side + in]) *
               static_cast<float>(
                   b[(tile + col / 16) * kTileElements + in / 2 * kBf16Side + col % 16 * 2 + in % 2]);
      }
      c[row * kBf16Side + col] = sum;
    }
  }
}

}  // namespace

const Bf16Instructions* bf16_instructions() {
#if defined(__x86_64__) && defined(__linux__)
  static const CpuFlags flags;
  static constexpr Bf16Instructions kAmx{amx_block, amx_begin, amx_end}, kAvx512{avx512_block};
  if (flags.amx) return &kAmx;
  if (flags.avx512_bf16) return &kAvx512;
#endif
  return nullptr;
}

const Bf16Instructions& plain_bf16_instructions() {
  static constexpr Bf16Instructions kPlain{plain_block};
  return kPlain;
}

}  // namespace trireme::cpu

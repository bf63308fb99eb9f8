// See crc32c.h. An instruction takes 8 bytes a cycle, but its result comes after three: so three runs of
// bytes are taken side by side, and their values put together.
#include "trireme/base/crc32c.h"

#include <array>
#include <cstring>

#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace trireme {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // x^32 + x^28 + …, its bits reversed
constexpr size_t kRun = 1024;                 // bytes of each of the three

constexpr std::array<uint32_t, 256> kOfByte = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ kPolynomial : crc >> 1;
    table[i] = crc;
  }
  return table;
}();

// What kRun zeros make of a value, by its bytes: CRCs are linear, so what the bits become is added up.
constexpr std::array<std::array<uint32_t, 256>, 4> kAfterRun = [] {
  std::array<std::array<uint32_t, 256>, 4> table{};
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < kRun; ++i) crc = crc >> 8 ^ kOfByte[crc & 0xff];
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (byte >> bit % 8 & 1) table[bit / 8][byte] ^= crc;
    }
  }
  return table;
}();

uint64_t after_run(uint64_t crc) {
  return kAfterRun[0][crc & 0xff] ^ kAfterRun[1][crc >> 8 & 0xff] ^ kAfterRun[2][crc >> 16 & 0xff] ^
         kAfterRun[3][crc >> 24];
}

#if defined(__x86_64__)
#define TRIREME_WITH_CRC __attribute__((target("sse4.2")))
bool has_instruction() {
  return __builtin_cpu_supports("sse4.2");
}
TRIREME_WITH_CRC inline uint64_t add_word(uint64_t crc, uint64_t word) {
  return __builtin_ia32_crc32di(crc, word);
}
#elif defined(__aarch64__)
#define TRIREME_WITH_CRC
bool has_instruction() {
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
// Compilers have other names for it, and other ways to ask for it in one function.
inline uint64_t add_word(uint64_t crc, uint64_t word) {
  uint32_t sum = static_cast<uint32_t>(crc);
  asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(sum) : "r"(word));
  return sum;
}
#else
#define TRIREME_WITH_CRC
bool has_instruction() {
  return false;
}
uint64_t add_word(uint64_t crc, uint64_t word) {
  return crc ^ word;  // not called
}
#endif

inline uint64_t word_at(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

TRIREME_WITH_CRC uint32_t crc32c_by_instruction(std::span<const std::byte> bytes, uint32_t before) {
  uint64_t crc = ~before;  // its upper half is 0; 32 bits would have to be widened for each instruction
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  for (; static_cast<size_t>(end - at) >= 3 * kRun; at += 3 * kRun) {
    uint64_t second = 0, third = 0;
    for (size_t line = 0; line < kRun; line += 64) {
      // Of the next round: the processor does not see three runs coming.
      for (size_t run = 3; run < 6; ++run) __builtin_prefetch(at + run * kRun + line);
      for (size_t i = line; i < line + 64; i += 8) {
        crc = add_word(crc, word_at(at + i));
        second = add_word(second, word_at(at + kRun + i));
        third = add_word(third, word_at(at + 2 * kRun + i));
      }
    }
    crc = after_run(after_run(crc) ^ second) ^ third;
  }
  for (; end - at >= 8; at += 8) crc = add_word(crc, word_at(at));
  return crc32c_by_table({at, end}, ~static_cast<uint32_t>(crc));
}

}  // namespace

uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (const std::byte byte : bytes) crc = crc >> 8 ^ kOfByte[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  static const bool kHasInstruction = has_instruction();
  return kHasInstruction ? crc32c_by_instruction(bytes, before) : crc32c_by_table(bytes, before);
}

}  // namespace trireme

// Codes of any number of bits, one after another in bytes, from the lowest bit of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "trireme/base/error.h"

namespace trireme::cpu {

class BitWriter {
 public:
  explicit BitWriter(std::span<uint8_t> bytes) : next_(bytes.data()), end_(next_ + bytes.size()) {}

  // The lowest `count` bits of `bits`, of which the others are 0; up to 40.
  void append(uint64_t bits, int count) {
    window_ |= bits << held_;
    for (held_ += count; held_ >= 8; held_ -= 8) store();
  }
  // What is left of the bytes is 0.
  void finish() {
    if (held_ > 0) store();
    std::fill(next_, end_, uint8_t{0});
  }

 private:
  void store() {
    TRIREME_CHECK(next_ != end_);
    *next_++ = static_cast<uint8_t>(window_);
    window_ >>= 8;
  }

  uint8_t* next_;
  uint8_t* end_;
  uint64_t window_ = 0;
  int held_ = 0;  // bits of it that are not stored yet
};

class BitReader {
 public:
  explicit BitReader(std::span<const uint8_t> bytes) : next_(bytes.data()), end_(next_ + bytes.size()) {}

  // The bits to come, 57 of them at least; past the end they are 0.
  uint64_t peek() {
    for (; held_ <= 56 && next_ != end_; held_ += 8) window_ |= uint64_t{*next_++} << held_;
    return window_;
  }
  // As many of those that were peeked at.
  void skip(int count) {
    window_ >>= count;
    held_ = std::max(0, held_ - count);
  }

 private:
  const uint8_t* next_;
  const uint8_t* end_;
  uint64_t window_ = 0;
  int held_ = 0;
};

}  // namespace trireme::cpu

// Writes the wire format of protocol buffers (wire.h), field by field.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme::onnx {

class WireWriter {
 public:
  WireWriter& integer(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  WireWriter& real(int field, float value) {
    tag(field, 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift & 0xff);
    return *this;
  }
  // Text, raw bytes, or another message.
  WireWriter& bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  WireWriter& message(int field, const WireWriter& value) { return bytes(field, value.bytes_); }

  // A field of another file, as it is there (WireReader::field_bytes).
  WireWriter& copy(std::span<const uint8_t> field) {
    bytes_.append(reinterpret_cast<const char*>(field.data()), field.size());
    return *this;
  }

  const std::string& text() const { return bytes_; }

 private:
  void tag(int field, int kind) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(kind)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace trireme::onnx

// The wire format of protocol buffers, read field by field. Bytes may come from anywhere: nothing is read
// past the end, and what does not fit throws an Error with the place.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::onnx {

using Bytes = std::span<const uint8_t>;

class WireReader {
 public:
  // `where` opens every message and outlives the reader.
  WireReader(Bytes bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  // Goes to the next field, past the last one's value where nobody has asked for it. False at the end.
  bool next();
  int field() const { return field_; }

  // The value of the field. Each throws where the field is of another kind.
  int64_t integer();
  float real();
  Bytes bytes();
  std::string text();
  // The field as it is written, with its number; its value may have been read or not.
  Bytes field_bytes();
  // Of repeated numbers: adds this field's, one or (packed) many.
  void add_to(std::vector<int64_t>& values);
  void add_to(std::vector<float>& values);
  void add_to(std::vector<double>& values);

 private:
  enum class Kind { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint64_t varint();
  void skip_value();
  template <typename T>
  T fixed();
  template <typename T>
  void add_fixed(std::vector<T>& values, Kind alone);
  void expect(Kind kind);
  [[noreturn]] void fail(std::string_view problem) const;

  Bytes bytes_;
  const std::string& where_;
  size_t at_ = 0, field_at_ = 0;
  int field_ = 0;
  Kind kind_ = Kind::kVarint;
  bool pending_ = false;  // the field's value has not been read
};

}  // namespace trireme::onnx

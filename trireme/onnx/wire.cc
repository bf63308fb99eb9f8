// See wire.h. https://protobuf.dev/programming-guides/encoding describes the format. Groups, which ONNX
// never used, are refused.
#include "trireme/onnx/wire.h"

#include <cstring>

#include "trireme/base/error.h"

namespace trireme::onnx {

void WireReader::fail(std::string_view problem) const {
  throw_error("{}: {} at byte {} of a message; this is no ONNX file, or a damaged one", where_, problem, at_);
}

uint64_t WireReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size()) fail("the end within a number");
    const uint8_t byte = bytes_[at_++];
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of more than ten bytes");
}

template <typename T>
T WireReader::fixed() {
  if (bytes_.size() - at_ < sizeof(T)) fail("the end within a number");
  T value;
  std::memcpy(&value, bytes_.data() + at_, sizeof(T));
  at_ += sizeof(T);
  return value;
}

void WireReader::skip_value() {
  if (!pending_) return;
  if (kind_ == Kind::kVarint) varint();
  if (kind_ == Kind::kFixed64) fixed<uint64_t>();
  if (kind_ == Kind::kFixed32) fixed<uint32_t>();
  if (kind_ == Kind::kBytes) bytes();
  pending_ = false;
}

Bytes WireReader::field_bytes() {
  skip_value();
  return bytes_.subspan(field_at_, at_ - field_at_);
}

bool WireReader::next() {
  skip_value();
  if (at_ == bytes_.size()) return false;
  field_at_ = at_;
  const uint64_t tag = varint();
  const uint64_t kind = tag & 7;
  if (kind != 0 && kind != 1 && kind != 2 && kind != 5) fail("a field of an unknown kind");
  if (tag >> 3 == 0 || tag >> 3 > (1 << 29)) fail("a field without a number");
  field_ = static_cast<int>(tag >> 3);
  kind_ = static_cast<Kind>(kind);
  pending_ = true;
  return true;
}

void WireReader::expect(Kind kind) {
  if (kind_ != kind || !pending_) fail(fmt::format("field {} of another kind than expected", field_));
  pending_ = false;
}

int64_t WireReader::integer() {
  expect(Kind::kVarint);
  return static_cast<int64_t>(varint());
}

float WireReader::real() {
  expect(Kind::kFixed32);
  return fixed<float>();
}

Bytes WireReader::bytes() {
  expect(Kind::kBytes);
  const uint64_t size = varint();
  if (size > bytes_.size() - at_) fail(fmt::format("{} bytes that are not there", size));
  const Bytes part = bytes_.subspan(at_, size);
  at_ += size;
  return part;
}

std::string WireReader::text() {
  const Bytes part = bytes();
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

void WireReader::add_to(std::vector<int64_t>& values) {
  if (kind_ == Kind::kVarint) return values.push_back(integer());
  WireReader packed(bytes(), where_);
  while (packed.at_ < packed.bytes_.size()) values.push_back(static_cast<int64_t>(packed.varint()));
}

template <typename T>
void WireReader::add_fixed(std::vector<T>& values, Kind alone) {
  if (kind_ == alone) {
    expect(alone);
    return values.push_back(fixed<T>());
  }
  const Bytes packed = bytes();
  if (packed.size() % sizeof(T) != 0) fail("packed numbers that end in a part of one");
  const size_t before = values.size();
  values.resize(before + packed.size() / sizeof(T));
  if (!packed.empty()) std::memcpy(values.data() + before, packed.data(), packed.size());
}

void WireReader::add_to(std::vector<float>& values) {
  add_fixed(values, Kind::kFixed32);
}
void WireReader::add_to(std::vector<double>& values) {
  add_fixed(values, Kind::kFixed64);
}

}  // namespace trireme::onnx

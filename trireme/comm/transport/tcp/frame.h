// What goes over a connection once it is proven: frames, each a header, so many bytes, and zeros up to a
// multiple of 8, so that every frame and every payload begins at a multiple of 8 of the stream and numbers
// can be combined where they were read. TCP's own checksum misses one error of 65536 and ends at the network
// card, so both have a CRC-32C. The header's is apart: what it says is acted on before the payload is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/base/crc32c.h"

namespace trireme::comm {

enum class FrameKind : uint32_t {
  message = 1,  // stream and call are those of its Label
  bye,          // the sender leaves; nothing follows
  abort,        // the job ends: call holds Failure << 32 | rank, the payload says why
  survey,       // has the receiver entered this stream? call is the sender's, 0 if it has not
  answer,       // to a survey: call is 1 for yes
};

struct FrameHeader {
  uint64_t stream;
  uint64_t call;
  uint32_t bytes;
  uint32_t kind;
  uint32_t payload_crc;
  uint32_t header_crc;  // of all before
};
static_assert(sizeof(FrameHeader) == 32);

inline uint32_t crc_of(const FrameHeader& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(FrameHeader, header_crc)));
}

constexpr size_t kMaxMessageBytes = size_t{1} << 30;
constexpr size_t kMaxControlBytes = 8192;

constexpr size_t padding_of(size_t bytes) {
  return (8 - bytes % 8) % 8;
}
constexpr size_t frame_bytes(size_t payload) {
  return sizeof(FrameHeader) + payload + padding_of(payload);
}

// Whether a header can be one of ours, before anything is done because of it.
inline bool plausible(const FrameHeader& header) {
  if (crc_of(header) != header.header_crc) return false;
  const auto kind = static_cast<FrameKind>(header.kind);
  if (kind == FrameKind::message) return header.bytes <= kMaxMessageBytes;
  return kind >= FrameKind::bye && kind <= FrameKind::answer && header.bytes <= kMaxControlBytes;
}

}  // namespace trireme::comm

// What goes over a connection once it is proven: frames, each a header, so many bytes, and zeros up to a
// multiple of 8, so that every frame and every payload begins at a multiple of 8 of the stream and numbers
// can be combined where they were read.
#pragma once

#include <cstddef>
#include <cstdint>

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
};
static_assert(sizeof(FrameHeader) == 24);

constexpr size_t kMaxMessageBytes = size_t{1} << 30;
constexpr size_t kMaxControlBytes = 8192;

constexpr size_t padding_of(size_t bytes) {
  return (8 - bytes % 8) % 8;
}
constexpr size_t frame_bytes(size_t payload) {
  return sizeof(FrameHeader) + payload + padding_of(payload);
}

// Whether a header can be one of ours, before anything is done because of it.
constexpr bool plausible(const FrameHeader& header) {
  const auto kind = static_cast<FrameKind>(header.kind);
  if (kind == FrameKind::message) return header.bytes <= kMaxMessageBytes;
  return kind >= FrameKind::bye && kind <= FrameKind::answer && header.bytes <= kMaxControlBytes;
}

}  // namespace trireme::comm

// The order of what is sent; see outbox.h.
#include "trireme/comm/transport/tcp/outbox.h"

#include <utility>

namespace trireme::comm {
namespace {

constexpr std::array<std::byte, 8> kZeros{};
// Payload that is handed over at once. Its checksum brings it into the second-level cache, and there it has
// to be when the system copies it.
constexpr size_t kPayloadAtOnce = 256 * 1024;
// In Request::detail, beside the checksum of its payload: it is known.
constexpr uint64_t kHasChecksum = uint64_t{1} << 32;

FrameHeader header_of(Label label, FrameKind kind, size_t bytes, uint32_t payload_crc) {
  FrameHeader header{label.stream, label.call, static_cast<uint32_t>(bytes), static_cast<uint32_t>(kind),
                     payload_crc,  0};
  header.header_crc = crc_of(header);
  return header;
}

}  // namespace

void Outbox::post(Request& request) {
  request.next = nullptr;
  if (first_ == nullptr) {
    first_ = &request;
  } else {
    last_->next = &request;
  }
  last_ = &request;
}

void Outbox::post_control(FrameKind kind, uint64_t stream, uint64_t call, std::string_view payload) {
  payload = payload.substr(0, kMaxControlBytes);
  const FrameHeader header =
      header_of({stream, call}, kind, payload.size(), crc32c(std::as_bytes(std::span(payload))));
  control_.append(reinterpret_cast<const char*>(&header), sizeof header);
  control_.append(payload);
  control_.append(padding_of(payload.size()), '\0');
}

void Outbox::add_piece(const void* data, size_t bytes, size_t& skip) {
  const size_t skipped = skip < bytes ? skip : bytes;
  skip -= skipped;
  if (skipped == bytes) return;
  pieces_[piece_count_++] = {const_cast<char*>(static_cast<const char*>(data)) + skipped, bytes - skipped};
}

void Outbox::add_frame(Request& request, size_t slot) {
  if (request.detail == 0) request.detail = kHasChecksum | crc32c({request.data, request.bytes});
  headers_[slot] =
      header_of(request.label, FrameKind::message, request.bytes, static_cast<uint32_t>(request.detail));
  size_t skip = request.moved;
  add_piece(&headers_[slot], sizeof(FrameHeader), skip);
  add_piece(request.data, request.bytes, skip);
  add_piece(kZeros.data(), padding_of(request.bytes), skip);
}

std::span<const iovec> Outbox::next() {
  piece_count_ = 0;
  const bool begun = first_ != nullptr && first_->moved > 0;
  control_turn_ = !control_.empty() && !begun;
  if (control_turn_) {
    size_t skip = control_sent_;
    add_piece(control_.data(), control_.size(), skip);
  } else {
    // With control frames to send, only what has begun is finished.
    const size_t most = control_.empty() ? kMessages : 1;
    size_t slot = 0, payload = 0;
    for (Request* request = first_; request != nullptr && slot < most && payload < kPayloadAtOnce;
         request = request->next) {
      add_frame(*request, slot++);
      payload += request->bytes;
    }
  }
  return {pieces_.data(), piece_count_};
}

void Outbox::sent(size_t bytes) {
  if (control_turn_) {
    control_sent_ += bytes;
    if (control_sent_ < control_.size()) return;
    control_.clear();
    control_sent_ = 0;
    return;
  }
  while (bytes > 0) {
    Request& request = *first_;
    const size_t left = frame_bytes(request.bytes) - request.moved;
    if (bytes < left) {
      request.moved += bytes;
      return;
    }
    bytes -= left;
    first_ = request.next;
    request.moved = request.bytes;
    request.done = true;
  }
}

void Outbox::discard() {
  if (first_ != nullptr && first_->moved > 0) {
    // Control frames do not begin while a message is under way, so nothing of them has gone yet.
    TRIREME_CHECK(control_sent_ == size_t{0});
    std::string rest;
    rest.reserve(frame_bytes(first_->bytes) - first_->moved + control_.size() + kMaxControlBytes);
    piece_count_ = 0;
    add_frame(*first_, 0);
    for (size_t i = 0; i < piece_count_; ++i) {
      rest.append(static_cast<const char*>(pieces_[i].iov_base), pieces_[i].iov_len);
    }
    control_ = std::move(rest.append(control_));
  }
  first_ = last_ = nullptr;
}

}  // namespace trireme::comm

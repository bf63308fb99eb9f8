// The order of what is sent; see outbox.h.
#include "trireme/comm/transport/tcp/outbox.h"

#include <utility>

namespace trireme::comm {
namespace {

constexpr std::array<std::byte, 8> kZeros{};

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
  const FrameHeader header{stream, call, static_cast<uint32_t>(payload.size()), static_cast<uint32_t>(kind)};
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

void Outbox::add_frame(const Request& request, size_t slot) {
  headers_[slot] = {request.label.stream, request.label.call, static_cast<uint32_t>(request.bytes),
                    static_cast<uint32_t>(FrameKind::message)};
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
    size_t slot = 0;
    for (const Request* request = first_; request != nullptr && slot < most; request = request->next) {
      add_frame(*request, slot++);
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

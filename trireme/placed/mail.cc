// See mail.h.
#include "trireme/placed/mail.h"

#include <algorithm>
#include <cstring>

namespace trireme::placed {
namespace {

constexpr uint32_t kMailGroup = 0x6d61696c;  // no group of a context has it

comm::Label label_of(uint32_t stream) {
  return {.stream = comm::make_stream(kMailGroup, stream), .call = 0};
}

}  // namespace

void Mail::open(comm::Transport& transport, std::span<const int> may_be_lost) {
  transport_ = &transport;
  transport.bear_loss_of(may_be_lost);
}

// That a rank is lost may be noticed in the middle of a call about it.
template <typename Call>
void Mail::unless_lost(int peer, const Call& call) {
  try {
    call();
  } catch (const comm::PeerError&) {
    if (!transport_->lost(peer)) throw;
  }
}

void Mail::post(Box& box) {
  if (transport_->lost(box.peer)) return;
  std::span<std::byte> into = std::as_writable_bytes(std::span(&box.size, 1));
  if (!box.waits_for_size) {
    box.buffer.resize(box.bytes == kAnySize ? box.size : box.bytes);
    into = box.buffer;
  }
  unless_lost(box.peer,
              [&] { transport_->receive(box.peer, label_of(box.stream), into, nullptr, box.request); });
}

void Mail::take(int peer, uint32_t stream, size_t bytes, int64_t count,
                std::function<void(std::span<const std::byte>)> handle) {
  if (count > 0)
    post(boxes_.emplace_back(
        Box{peer, stream, bytes, count, std::move(handle), 0, bytes == kAnySize, {}, {}}));
}

void Mail::send(int peer, uint32_t stream, Bytes message) {
  if (transport_->lost(peer)) return;
  Sent& sent = sent_.emplace_back(Sent{std::move(message), {}});
  unless_lost(peer, [&] { transport_->send(peer, label_of(stream), sent.message, sent.request); });
}

void Mail::send_any_size(int peer, uint32_t stream, Bytes message) {
  const uint64_t size = message.size();
  Bytes ahead(sizeof size);
  std::memcpy(ahead.data(), &size, sizeof size);
  send(peer, stream, std::move(ahead));
  send(peer, stream, std::move(message));
}

bool Mail::move() {
  bool moved = transport_->progress();
  std::erase_if(sent_, [](const Sent& one) { return one.request.done; });
  for (Box& box : boxes_) {
    // Before the next one of the same box is asked for, this one is handed over.
    while (box.left > 0 && box.request.done && !transport_->lost(box.peer)) {
      moved = true;
      if (box.waits_for_size) {
        box.waits_for_size = false;
      } else {
        box.handle(box.buffer);
        box.waits_for_size = box.bytes == kAnySize;
        --box.left;
      }
      if (box.left > 0) post(box);
    }
  }
  return moved;
}

void Mail::flush(Clock::time_point deadline) {
  while (!sent_.empty() && Clock::now() < deadline) {
    if (!move()) idle(deadline);
  }
}

}  // namespace trireme::placed

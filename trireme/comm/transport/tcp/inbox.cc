// Frames in, messages out; see inbox.h.
#include "trireme/comm/transport/tcp/inbox.h"

#include <algorithm>
#include <cstring>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

// Below this, one read into the shared buffer that may bring several messages beats one for this alone.
constexpr size_t kDirectBytes = 8192;
constexpr size_t kSpareMessages = 64;
constexpr size_t kSpareBytes = 64 * 1024;

}  // namespace

void Inbox::Receives::push(Request& request) {
  request.next = nullptr;
  *end = &request;
  end = &request.next;
}

Request* Inbox::Receives::take(uint64_t stream) {
  for (Request** at = &first; *at != nullptr; at = &(*at)->next) {
    Request* const request = *at;
    if (request->label.stream != stream) continue;
    *at = request->next;
    if (end == &request->next) end = at;
    return request;
  }
  return nullptr;
}

void Inbox::check_match(const Request& request, Label label, size_t bytes) const {
  if (label.call != request.label.call) {
    throw PeerError(Failure::mismatch, peer_, calls_differ(self_, request.label.call, peer_, label.call));
  }
  if (bytes != request.bytes) {
    throw PeerError(Failure::mismatch, peer_, sizes_differ(self_, request.bytes, peer_, bytes, label.call));
  }
}

void Inbox::deliver(Request& request, std::span<const std::byte> bytes) {
  std::byte* const to = request.data + request.moved;
  request.moved += bytes.size();
  if (bytes.empty()) return;
  if (request.combine != nullptr) {
    request.combine(to, bytes.data(), bytes.size());
  } else {
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

void Inbox::complete(Request& request) {
  bytes_received_ += request.bytes;
  request.done = true;
}

void Inbox::post(Request& request) {
  held_ = false;
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& message) {
    return message.label.stream == request.label.stream;
  });
  if (kept == kept_.end()) return receives_.push(request);
  check_match(request, kept->label, kept->bytes);
  deliver(request, kept->data);
  if (arriving_.kept == &*kept) {  // the rest goes straight to its place
    arriving_.kept = nullptr;
    arriving_.request = &request;
  } else {
    complete(request);
  }
  kept_bytes_ -= kept->bytes;
  if (spare_.size() < kSpareMessages && kept->data.capacity() <= kSpareBytes) {
    spare_.splice(spare_.begin(), kept_, kept);
  } else {
    kept_.erase(kept);
  }
}

// False when the message has to wait outside.
bool Inbox::begin(const FrameHeader& header, Owner& owner) {
  if (!plausible(header)) {
    throw PeerError(
        Failure::cut_off, peer_,
        fmt::format("rank {} got from rank {} what is no frame (kind {}, {} bytes, checksum {:08x}, not "
                    "{:08x}): the memory of one of them or the link is broken",
                    self_, peer_, header.kind, header.bytes, crc_of(header), header.header_crc));
  }
  Arriving next{.active = true, .header = header};
  if (static_cast<FrameKind>(header.kind) != FrameKind::message) {
    next.is_control = true;
    control_.clear();
  } else if (!discarding_) {
    const Label label{header.stream, header.call};
    if (Request* const request = receives_.take(header.stream)) {
      check_match(*request, label, header.bytes);
      next.request = request;
    } else {
      owner.unexpected(peer_, label);
      if (kept_bytes_ + header.bytes > budget_bytes_) {
        held_ = true;
        return false;
      }
      if (spare_.empty()) spare_.emplace_back();
      kept_.splice(kept_.end(), spare_, spare_.begin());
      Kept& kept = kept_.back();
      kept.label = label;
      kept.bytes = header.bytes;
      kept.data.clear();
      kept.data.reserve(header.bytes);
      kept_bytes_ += header.bytes;
      next.kept = &kept;
    }
  }
  arriving_ = next;
  return true;
}

size_t Inbox::take_payload(std::span<const std::byte> bytes) {
  const size_t left = arriving_.header.bytes - arriving_.moved;
  bytes = bytes.first(std::min(bytes.size(), left));
  // A part that is not the end is cut at a multiple of 8, so that no number is cut.
  const bool may_combine = arriving_.kept != nullptr || (arriving_.request && arriving_.request->combine);
  if (may_combine && bytes.size() < left) bytes = bytes.first(bytes.size() / 8 * 8);
  arriving_.crc = crc32c(bytes, arriving_.crc);  // before it is combined: now it comes into the cache
  if (arriving_.request != nullptr) {
    deliver(*arriving_.request, bytes);
  } else if (arriving_.kept != nullptr) {
    arriving_.kept->data.insert(arriving_.kept->data.end(), bytes.begin(), bytes.end());
  } else if (arriving_.is_control) {
    control_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  arriving_.moved += bytes.size();
  return bytes.size();
}

void Inbox::check_payload(const Arriving& arrived) const {
  const FrameHeader& header = arrived.header;
  if (arrived.crc == header.payload_crc) return;
  const bool is_message = static_cast<FrameKind>(header.kind) == FrameKind::message;
  throw PeerError(
      Failure::mismatch, peer_,
      fmt::format("rank {} got other bytes than rank {} sent: {} (group {}, number {}), message of {} "
                  "bytes with checksum {:08x}, not {:08x}. The memory of one of the two or the link "
                  "between them alters bits",
                  self_, peer_, is_message ? to_text(Call::unpack(header.call)) : "control frame",
                  header.stream >> 32, static_cast<uint32_t>(header.stream), header.bytes, arrived.crc,
                  header.payload_crc));
}

void Inbox::finish(Owner& owner) {
  const Arriving done = arriving_;
  arriving_ = {};
  skip_ = padding_of(done.header.bytes);
  check_payload(done);
  if (done.request != nullptr) complete(*done.request);
  if (done.is_control) owner.control(peer_, done.header, control_);
}

size_t Inbox::take(std::span<const std::byte> bytes, Owner& owner) {
  const size_t given = bytes.size();
  const auto consume = [&](size_t count) {
    bytes = bytes.subspan(count);
    position_ += count;
  };
  for (;;) {
    const size_t skipped = std::min(skip_, bytes.size());
    skip_ -= skipped;
    consume(skipped);
    if (!arriving_.active) {
      if (bytes.size() < sizeof(FrameHeader)) break;
      FrameHeader header;
      std::memcpy(&header, bytes.data(), sizeof header);
      if (!begin(header, owner)) break;
      consume(sizeof header);
    }
    const size_t taken = take_payload(bytes);
    consume(taken);
    if (arriving_.moved < arriving_.header.bytes) break;
    finish(owner);
  }
  return given - bytes.size();
}

std::span<std::byte> Inbox::direct() const {
  const Request* const request = arriving_.request;
  if (request == nullptr || request->combine != nullptr) return {};
  const size_t left = request->bytes - request->moved;
  if (left < kDirectBytes) return {};
  return {request->data + request->moved, left};
}

void Inbox::took_directly(size_t bytes) {
  arriving_.crc = crc32c(direct().first(bytes), arriving_.crc);
  arriving_.request->moved += bytes;
  arriving_.moved += bytes;
  position_ += bytes;
  // A message that is complete now is finished by the next take(), which may be given nothing.
}

size_t Inbox::read_ahead(size_t room) const {
  const bool in_payload = arriving_.active && direct().empty();
  const Request* const next = receives_.first;
  if (in_payload || next == nullptr || next->combine != nullptr || next->bytes < kDirectBytes) return room;
  return (arriving_.active ? padding_of(arriving_.header.bytes) : skip_) + sizeof(FrameHeader);
}

std::optional<uint64_t> Inbox::kept_call(uint64_t stream) const {
  for (const Kept& message : kept_) {
    if (message.label.stream == stream) return message.label.call;
  }
  return std::nullopt;
}

void Inbox::discard() {
  discarding_ = true;
  held_ = false;
  receives_ = {};
  receives_.end = &receives_.first;
  arriving_.request = nullptr;
  arriving_.kept = nullptr;
  kept_.clear();
  kept_bytes_ = 0;
}

}  // namespace trireme::comm

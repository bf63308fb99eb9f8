// See mpi_transport.h. This file: messages. mpi_watch.cc: what happens when they do not come.
#include "trireme/comm/transport/mpi/mpi_transport.h"

#include <algorithm>
#include <cstring>

#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

MpiTransport::MpiTransport(bool& job_failed)
    : Transport(
          [] {
            int rank = 0;
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            return rank;
          }(),
          [] {
            int ranks = 0;
            MPI_Comm_size(MPI_COMM_WORLD, &ranks);
            return ranks;
          }()),
      job_failed_(job_failed),
      inline_buffer_(sizeof(Header) + kInlineBytes),
      last_moved_(Clock::now()) {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), -1, "setting up");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  int* upper = nullptr;
  int found = 0;
  MPI_Comm_get_attr(comm_, MPI_TAG_UB, &upper, &found);
  tags_ = found ? *upper : 32767;  // what every MPI must have
  control_ = std::make_unique<MpiControl>();
}

MpiTransport::~MpiTransport() {
  // After a failure transfers stay in flight, and ending them needs the other ranks. MPI moves nothing unless
  // it is called, so it is not called again: the process is about to end.
  if (!job_failed_) job_failed_ = !control_->close();
  if (job_failed_) return;
  MPI_Waitall(static_cast<int>(mpi_requests_.size()), mpi_requests_.data(), MPI_STATUSES_IGNORE);
  MPI_Comm_free(&comm_);
}

int MpiTransport::tag_of(uint64_t stream) const {
  // The sequence number is what tells the streams that are in flight together apart: neighbours never share a
  // tag. The group only shifts it.
  const uint64_t group = stream >> 32;
  const uint64_t sequence = stream & 0xffffffff;
  return static_cast<int>((sequence + group * 0x9e3779b1u) % static_cast<uint64_t>(tags_));
}

void MpiTransport::add_transfer(MPI_Request mpi_request, Transfer transfer) {
  mpi_requests_.push_back(mpi_request);
  transfers_.push_back(std::move(transfer));
}

void MpiTransport::send(int peer, Label label, std::span<const std::byte> bytes, Request& request) {
  check_alive();
  const int tag = tag_of(label.stream);
  const Header header{label.stream, label.call, bytes.size()};
  const bool with_payload = bytes.size() <= kInlineBytes;
  Transfer first;
  first.buffer.resize(sizeof(Header) + (with_payload ? bytes.size() : 0));
  std::memcpy(first.buffer.data(), &header, sizeof header);
  if (with_payload && !bytes.empty())
    std::memcpy(first.buffer.data() + sizeof header, bytes.data(), bytes.size());
  MPI_Request mpi_request;
  check(MPI_Isend(first.buffer.data(), static_cast<int>(first.buffer.size()), MPI_BYTE, peer, tag, comm_,
                  &mpi_request),
        peer, "sending to");
  add_transfer(mpi_request, std::move(first));  // a vector's bytes stay where they are when it is moved

  ++counters_.messages_sent;
  counters_.bytes_sent += bytes.size();
  request.done = with_payload;  // copied: the memory may be changed
  request.detail = 0;
  if (with_payload) return;
  for (size_t begin = 0; begin < bytes.size(); begin += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, bytes.size() - begin);
    check(MPI_Isend(bytes.data() + begin, static_cast<int>(size), MPI_BYTE, peer, tag, comm_, &mpi_request),
          peer, "sending to");
    add_transfer(mpi_request, {.request = &request, .kept = nullptr, .combine_into = nullptr, .buffer = {}});
    ++request.detail;
  }
}

MpiTransport::Lane* MpiTransport::find_lane(int peer, uint64_t stream) {
  for (Lane& lane : lanes_) {
    if (lane.peer == peer && lane.stream == stream) return &lane;
  }
  return nullptr;
}

void MpiTransport::receive(int peer, Label label, std::span<std::byte> into, Combine combine,
                           Request& request) {
  check_alive();
  request.done = false;
  request.peer = peer;
  request.label = label;
  request.data = into.data();
  request.bytes = into.size();
  request.combine = combine;
  request.detail = 0;
  Lane* lane = find_lane(peer, label.stream);
  if (lane == nullptr) lane = &lanes_.emplace_back(Lane{peer, label.stream, {}});
  lane->posted.push_back(&request);
}

bool MpiTransport::progress() {
  check_alive();
  handle_control();
  bool moved = finish_transfers();
  // By index: taking a message may remove lanes.
  for (size_t i = lanes_.size(); i-- > 0;) {
    if (i >= lanes_.size()) continue;
    const int peer = lanes_[i].peer;
    const int tag = tag_of(lanes_[i].stream);
    while (look_for(peer, tag)) moved = true;
  }
  if (!kept_.empty() && deliver_kept()) moved = true;
  if (moved) {
    last_moved_ = Clock::now();
    next_notice_seconds_ = 0;
  }
  return moved;
}

bool MpiTransport::look_for(int peer, int tag) {
  // Only while someone waits: what nobody waits for is better kept by MPI.
  const bool wanted = std::ranges::any_of(
      lanes_, [&](const Lane& lane) { return lane.peer == peer && tag_of(lane.stream) == tag; });
  if (!wanted) return false;
  int found = 0;
  MPI_Message message;
  MPI_Status status;
  check(MPI_Improbe(peer, tag, comm_, &found, &message, &status), peer, "receiving from");
  if (!found) return false;
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  TRIREME_CHECK(size >= static_cast<int>(sizeof(Header)));
  TRIREME_CHECK(size <= static_cast<int>(inline_buffer_.size()));
  check(MPI_Mrecv(inline_buffer_.data(), size, MPI_BYTE, &message, MPI_STATUS_IGNORE), peer,
        "receiving from");
  Header header;
  std::memcpy(&header, inline_buffer_.data(), sizeof header);
  take(peer, header, header.bytes <= kInlineBytes ? inline_buffer_.data() + sizeof header : nullptr);
  return true;
}

void MpiTransport::take(int peer, const Header& header, const std::byte* inline_payload) {
  Lane* lane = find_lane(peer, header.stream);
  if (lane == nullptr || kept_.contains({peer, header.stream})) return keep(peer, header, inline_payload);
  Request& request = *lane->posted.front();
  lane->posted.pop_front();
  if (lane->posted.empty()) lanes_.erase(lanes_.begin() + (lane - lanes_.data()));
  start_receive(request, header, inline_payload);
}

void MpiTransport::start_receive(Request& request, const Header& header, const std::byte* inline_payload) {
  compare(request.peer, request.label, header.call);
  if (header.bytes != request.bytes) {
    fail(PeerError(Failure::mismatch, request.peer,
                   sizes_differ(rank(), request.bytes, request.peer, header.bytes, header.call)));
  }
  if (inline_payload != nullptr) return finish_receive(request, inline_payload);
  counters_.bytes_received += header.bytes;
  post_pieces(request.peer, header.stream, request.data, header.bytes, &request, nullptr);
}

// `kept`, or else `request`, counts the pieces that are still to come.
void MpiTransport::post_pieces(int peer, uint64_t stream, std::byte* data, size_t bytes, Request* request,
                               Kept* kept) {
  const bool combines = request != nullptr && request->combine != nullptr;
  for (size_t begin = 0; begin < bytes; begin += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, bytes - begin);
    Transfer transfer{.request = request, .kept = kept, .combine_into = nullptr, .buffer = {}};
    if (combines) {
      transfer.combine_into = data + begin;
      transfer.buffer.resize(size);
    }
    std::byte* into = combines ? transfer.buffer.data() : data + begin;
    MPI_Request mpi_request;
    check(MPI_Irecv(into, static_cast<int>(size), MPI_BYTE, peer, tag_of(stream), comm_, &mpi_request), peer,
          "receiving from");
    add_transfer(mpi_request, std::move(transfer));
    if (request != nullptr) ++request->detail;
    if (kept != nullptr) ++kept->pieces;
  }
}

void MpiTransport::finish_receive(Request& request, const std::byte* payload) {
  if (request.bytes != 0) {
    if (request.combine != nullptr) {
      request.combine(request.data, payload, request.bytes);
    } else {
      std::memcpy(request.data, payload, request.bytes);
    }
  }
  counters_.bytes_received += request.bytes;
  request.done = true;
}

void MpiTransport::keep(int peer, const Header& header, const std::byte* inline_payload) {
  auto kept = std::make_unique<Kept>(Kept{.header = header, .payload = std::vector<std::byte>(header.bytes)});
  if (inline_payload != nullptr) {
    std::copy_n(inline_payload, header.bytes, kept->payload.data());
  } else {
    post_pieces(peer, header.stream, kept->payload.data(), header.bytes, nullptr, kept.get());
  }
  kept_[{peer, header.stream}].push_back(std::move(kept));
}

bool MpiTransport::deliver_kept() {
  bool moved = false;
  for (auto entry = kept_.begin(); entry != kept_.end();) {
    const auto [peer, stream] = entry->first;
    auto& queue = entry->second;
    while (!queue.empty() && queue.front()->pieces == 0) {
      Lane* lane = find_lane(peer, stream);
      if (lane == nullptr) break;
      Request& request = *lane->posted.front();
      lane->posted.pop_front();
      if (lane->posted.empty()) lanes_.erase(lanes_.begin() + (lane - lanes_.data()));
      const std::unique_ptr<Kept> kept = std::move(queue.front());
      queue.pop_front();
      start_receive(request, kept->header, kept->payload.data());
      moved = true;
    }
    entry = queue.empty() ? kept_.erase(entry) : std::next(entry);
  }
  return moved;
}

bool MpiTransport::finish_transfers() {
  if (mpi_requests_.empty()) return false;
  finished_.resize(mpi_requests_.size());
  int count = 0;
  check(MPI_Testsome(static_cast<int>(mpi_requests_.size()), mpi_requests_.data(), &count, finished_.data(),
                     MPI_STATUSES_IGNORE),
        -1, "moving messages");
  if (count <= 0) return false;  // MPI_UNDEFINED is negative
  for (int i = 0; i < count; ++i) finish_transfer(transfers_[static_cast<size_t>(finished_[i])]);
  size_t kept = 0;
  for (size_t i = 0; i < mpi_requests_.size(); ++i) {
    if (mpi_requests_[i] == MPI_REQUEST_NULL) continue;
    if (kept != i) {
      mpi_requests_[kept] = mpi_requests_[i];
      transfers_[kept] = std::move(transfers_[i]);
    }
    ++kept;
  }
  mpi_requests_.resize(kept);
  transfers_.resize(kept);
  return true;
}

void MpiTransport::finish_transfer(Transfer& transfer) {
  if (transfer.kept != nullptr) --transfer.kept->pieces;
  if (transfer.request == nullptr) return;
  Request& request = *transfer.request;
  if (transfer.combine_into != nullptr)
    request.combine(transfer.combine_into, transfer.buffer.data(), transfer.buffer.size());
  if (--request.detail == 0) request.done = true;
}

}  // namespace trireme::comm

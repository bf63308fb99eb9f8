// See mpi_control.h.
#include "trireme/comm/transport/mpi/mpi_control.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <thread>

#include "trireme/comm/transport/mpi/mpi_calls.h"

namespace trireme::comm {

void AnnouncedCalls::add(Label label) {
  labels_[count_++ % kKept] = label;
}

std::optional<uint64_t> AnnouncedCalls::call_of(uint64_t stream) const {
  for (size_t i = 0; i < std::min(count_, kKept); ++i) {
    if (labels_[i].stream == stream) return labels_[i].call;
  }
  return std::nullopt;
}

bool AnnouncedCalls::entered(uint64_t stream) const {
  for (size_t i = 0; i < std::min(count_, kKept); ++i) {
    if (labels_[i].stream >> 32 == stream >> 32 && labels_[i].stream >= stream) return true;
  }
  return false;
}

std::optional<Label> AnnouncedCalls::last() const {
  if (count_ == 0) return std::nullopt;
  return labels_[(count_ - 1) % kKept];
}

MpiControl::MpiControl() {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), -1, "setting up");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  int ranks = 0;
  MPI_Comm_size(comm_, &ranks);
  sent_to_.resize(static_cast<size_t>(ranks));
  post();
}

bool MpiControl::close() {
  std::vector<int> sent_to_me(sent_to_.size());
  MPI_Request request;
  check_mpi(MPI_Ialltoall(sent_to_.data(), 1, MPI_INT, sent_to_me.data(), 1, MPI_INT, comm_, &request), -1,
            "leaving");
  for (int counted = 0;;) {
    while (const std::optional<Received> received = receive()) {
      if (received->message.kind == ControlMessage::aborted) return false;
    }
    if (!counted) check_mpi(MPI_Test(&request, &counted, MPI_STATUS_IGNORE), -1, "leaving");
    if (counted && received_ == std::accumulate(sent_to_me.begin(), sent_to_me.end(), 0)) break;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  MPI_Cancel(&request_);
  MPI_Wait(&request_, MPI_STATUS_IGNORE);
  for (Sent& sent : sent_) MPI_Wait(&sent.request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm_);
  return true;
}

void MpiControl::post() {
  check_mpi(MPI_Irecv(&incoming_, sizeof(Wire), MPI_BYTE, MPI_ANY_SOURCE, 0, comm_, &request_), -1,
            "receiving");
}

void MpiControl::send(int peer, const ControlMessage& message) {
  std::erase_if(sent_, [](Sent& sent) {
    int done = 0;
    MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  ++sent_to_[static_cast<size_t>(peer)];
  Sent& sent = sent_.emplace_back();
  Wire& wire = sent.wire;
  wire.kind = message.kind;
  wire.rank = message.rank;
  wire.failure = static_cast<uint32_t>(message.failure);
  wire.entered = message.entered;
  wire.stream = message.label.stream;
  wire.call = message.label.call;
  wire.text_bytes = static_cast<uint32_t>(message.text.copy(wire.text, kTextBytes));
  const size_t bytes = offsetof(Wire, text) + wire.text_bytes;
  check_mpi(MPI_Isend(&wire, static_cast<int>(bytes), MPI_BYTE, peer, 0, comm_, &sent.request), peer,
            "sending to");
}

std::optional<MpiControl::Received> MpiControl::receive() {
  int done = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&request_, &done, &status), -1, "receiving");
  if (!done) return std::nullopt;
  ControlMessage message;
  message.kind = static_cast<ControlMessage::Kind>(incoming_.kind);
  message.rank = incoming_.rank;
  message.failure = static_cast<Failure>(incoming_.failure);
  message.entered = incoming_.entered != 0;
  message.label = {.stream = incoming_.stream, .call = incoming_.call};
  message.text.assign(incoming_.text, std::min<size_t>(incoming_.text_bytes, kTextBytes));
  ++received_;
  Received received{status.MPI_SOURCE, std::move(message)};
  post();
  return received;
}

}  // namespace trireme::comm

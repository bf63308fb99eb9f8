// What ranks tell each other beside the messages of collectives, on a communicator of its own: that the job
// is over, in which call they wait, and whether they have entered a stream.
#pragma once

#include <mpi.h>

#include <array>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

// The last calls that a rank announced.
class AnnouncedCalls {
 public:
  void add(Label label);
  // The call that was announced for a stream, when it is among the last kKept.
  std::optional<uint64_t> call_of(uint64_t stream) const;
  // Whether this stream or a later one of its group was entered.
  bool entered(uint64_t stream) const;
  std::optional<Label> last() const;

 private:
  static constexpr size_t kKept = 64;
  std::array<Label, kKept> labels_{};
  size_t count_ = 0;
};

struct ControlMessage {
  enum Kind : uint32_t { aborted, waiting, asked, answered };
  Kind kind = waiting;
  int32_t rank = -1;  // aborted: because of whom
  Failure failure = Failure::aborted;
  bool entered = false;  // answered
  Label label;
  std::string text;  // aborted: the reason
};

class MpiControl {
 public:
  MpiControl();  // collective over MPI_COMM_WORLD
  // Collective; not after a failure. Returns when every message to this rank has come, since MPI may give
  // this communicator's number to the next one, and with it what was never received. False when one of them
  // says that the job has failed.
  bool close();

  void send(int peer, const ControlMessage& message);
  struct Received {
    int from;
    ControlMessage message;
  };
  std::optional<Received> receive();

 private:
  static constexpr size_t kTextBytes = 4000;
  struct Wire {
    uint32_t kind;
    int32_t rank;
    uint32_t failure;
    uint32_t entered;
    uint64_t stream;
    uint64_t call;
    uint32_t text_bytes;
    char text[kTextBytes];
  };
  struct Sent {
    MPI_Request request;
    Wire wire;
  };
  void post();

  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Request request_ = MPI_REQUEST_NULL;
  Wire incoming_{};
  std::list<Sent> sent_;
  std::vector<int> sent_to_;  // messages, by rank
  int received_ = 0;
};

}  // namespace trireme::comm

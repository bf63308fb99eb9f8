// Transport over MPI's point-to-point messages.
//
// A message is [header | payload] in one MPI message where the payload is small, or the header and then the
// payload in messages of their own, so that MPI moves large payloads straight into their place. All of them
// go under a tag made from the stream, and MPI is asked (MPI_Improbe) only for tags for which a receive is
// posted: what comes before its receive stays with MPI, which holds back senders of large messages. Streams
// that share a tag are told apart by the header; what was found for another stream is kept here.
#pragma once

#include <mpi.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "trireme/comm/transport/mpi/mpi_calls.h"
#include "trireme/comm/transport/mpi/mpi_control.h"

namespace trireme::comm {

class MpiTransport final : public Transport {
 public:
  // Collective over MPI_COMM_WORLD. `job_failed` outlives it and is set when the job can not go on.
  explicit MpiTransport(bool& job_failed);
  ~MpiTransport() override;

  std::string_view name() const override { return "mpi"; }
  void send(int peer, Label label, std::span<const std::byte> bytes, Request& request) override;
  void receive(int peer, Label label, std::span<std::byte> into, Combine combine, Request& request) override;
  bool progress() override;
  void idle(Clock::time_point deadline) override;
  std::unique_ptr<Memory> allocate(size_t bytes) override;
  void announce(Label label) override;
  std::vector<Arrival> arrivals(uint64_t stream, std::span<const int> ranks,
                                Clock::time_point deadline) override;
  void abort(std::string_view reason) override;
  std::unique_ptr<Native> native(uint32_t group, std::span<const int> members) override;

  // Throws what ended the job, when something did.
  void check_alive();
  // A native operation was started (1), went on (0) or ended (-1).
  void note_native(int change);
  // Ends the job when a peer made another call under the same stream.
  void compare(int peer, Label mine, uint64_t their_call);
  // Ends the job when a call of MPI failed. `doing` as in check_mpi().
  void check(int code, int peer, const char* doing);
  // Ends the job on all ranks because of `error`, and throws it.
  [[noreturn]] void fail(const PeerError& error);

 private:
  // Payloads up to this size travel with their header: below the size at which MPI libraries start to ask the
  // receiver first, and copying is cheaper than a second message.
  static constexpr size_t kInlineBytes = 4096;
  // MPI counts in int; larger payloads are cut.
  static constexpr size_t kPieceBytes = size_t{1} << 30;

  struct Header {
    uint64_t stream;
    uint64_t call;
    uint64_t bytes;
  };
  // A message that was found while another stream of the same tag was looked for.
  struct Kept {
    Header header;
    std::vector<std::byte> payload;
    int pieces = 0;  // still to come
  };
  // One MPI request: what to do when it is done.
  struct Transfer {
    Request* request = nullptr;         // of the user, or
    Kept* kept = nullptr;               // of ours, or neither: a header
    std::byte* combine_into = nullptr;  // with what came to `buffer`
    std::vector<std::byte> buffer;
  };
  // Receives that are posted for one peer and stream, in order.
  struct Lane {
    int peer;
    uint64_t stream;
    std::deque<Request*> posted;
  };

  // To the question whether a rank has entered a stream.
  struct Answer {
    int from;
    uint64_t stream;
    bool entered;
  };

  int tag_of(uint64_t stream) const;
  Lane* find_lane(int peer, uint64_t stream);
  bool look_for(int peer, int tag);
  void take(int peer, const Header& header, const std::byte* inline_payload);
  void start_receive(Request& request, const Header& header, const std::byte* inline_payload);
  void keep(int peer, const Header& header, const std::byte* inline_payload);
  bool deliver_kept();
  void finish_receive(Request& request, const std::byte* payload);
  void post_pieces(int peer, uint64_t stream, std::byte* data, size_t bytes, Request* request, Kept* kept);
  void add_transfer(MPI_Request mpi_request, Transfer transfer);
  bool finish_transfers();
  void finish_transfer(Transfer& transfer);
  void handle_control();
  void tell_waiting();

  bool& job_failed_;
  std::unique_ptr<PeerError> failure_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::unique_ptr<MpiControl> control_;
  int tags_ = 0;  // tags are 0 … tags_ - 1
  std::vector<Lane> lanes_;
  std::map<std::pair<int, uint64_t>, std::deque<std::unique_ptr<Kept>>> kept_;
  std::vector<MPI_Request> mpi_requests_;  // one for each of
  std::vector<Transfer> transfers_;
  std::vector<int> finished_;  // scratch of finish_transfers
  std::vector<std::byte> inline_buffer_;
  AnnouncedCalls announced_;
  std::vector<Answer> answers_;
  Clock::time_point last_moved_;
  double next_notice_seconds_ = 0;
  int native_operations_ = 0;
};

}  // namespace trireme::comm

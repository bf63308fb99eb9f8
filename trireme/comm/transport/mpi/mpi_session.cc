// MPI's start and end, and the exchange of a few bytes by MPI_Iallgatherv.
#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "trireme/base/clock.h"
#include "trireme/comm/transport/mpi/mpi.h"
#include "trireme/comm/transport/mpi/mpi_transport.h"

namespace trireme::comm {
namespace {

class MpiRendezvous final : public Rendezvous {
 public:
  explicit MpiRendezvous(double timeout_seconds) : timeout_seconds_(timeout_seconds) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), -1, "setting up");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &ranks_);
  }
  ~MpiRendezvous() override {
    if (!failed_) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  std::vector<std::string> exchange(std::string_view what, std::string mine) override {
    TRIREME_CHECK(mine.size() <= kMaxBytes);
    // One text: what, a zero byte, mine; so that ranks in different exchanges notice.
    const std::string text = std::string(what) + '\0' + mine;
    const int size = static_cast<int>(text.size());
    std::vector<int> sizes(static_cast<size_t>(ranks_));
    MPI_Request request;
    check_mpi(MPI_Iallgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, comm_, &request), -1, "meeting");
    finish(request, what);

    std::vector<int> offsets(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
    std::string all(static_cast<size_t>(offsets.back() + sizes.back()), '\0');
    check_mpi(MPI_Iallgatherv(text.data(), size, MPI_CHAR, all.data(), sizes.data(), offsets.data(), MPI_CHAR,
                              comm_, &request),
              -1, "meeting");
    finish(request, what);

    std::vector<std::string> answers;
    for (size_t r = 0; r < sizes.size(); ++r) {
      const std::string theirs = all.substr(static_cast<size_t>(offsets[r]), static_cast<size_t>(sizes[r]));
      const size_t end = theirs.find('\0');
      if (theirs.substr(0, end) != what) {
        throw_error(
            "rank {} is in the exchange of '{}', rank {} in that of '{}'; the ranks must run the same "
            "program with the same arguments",
            r, theirs.substr(0, end), rank_, what);
      }
      answers.push_back(theirs.substr(end + 1));
    }
    return answers;
  }

 private:
  void finish(MPI_Request& request, std::string_view what) {
    const Clock::time_point deadline = Clock::now() + clock_duration(timeout_seconds_);
    for (int done = 0;;) {
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), -1, "meeting");
      if (done) return;
      if (Clock::now() > deadline) {
        failed_ = true;
        throw_error(
            "the exchange of '{}' was not done after {} s: not all of the {} ranks came (MPI does not tell "
            "which). Do all ranks run the same command? A longer --timeout waits longer",
            what, timeout_seconds_, ranks_);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  double timeout_seconds_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int ranks_ = 0;
  bool failed_ = false;
};

class Session final : public MpiSession {
 public:
  Session() {
    int provided = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
      throw_error("MPI_Init_thread failed; was this started by the mpirun that belongs to {}?", library());
    if (provided < MPI_THREAD_SERIALIZED) {
      MPI_Finalize();
      throw_error(
          "{} was built without threads (MPI_THREAD_SERIALIZED is needed); use another MPI, or "
          "--transport tcp",
          library());
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }

  // After a failure MPI_Finalize would wait for ranks that may never come; leaving without it makes mpirun
  // end the job, which is what a failed job needs.
  ~Session() override {
    if (!failed_) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string version(text, static_cast<size_t>(length));
    // MPICH: "MPICH Version:\t4.0.2\nMPICH Release date:…"; Open MPI: "Open MPI v4.1.4, package: …"
    version = version.substr(0, version.find_first_of(",\n"));
    std::string line;
    for (char c : version) line += c == '\t' ? ' ' : c;
    return line;
  }

  std::unique_ptr<Rendezvous> rendezvous(double timeout_seconds) override {
    return std::make_unique<MpiRendezvous>(timeout_seconds);
  }
  std::unique_ptr<Transport> transport() override { return std::make_unique<MpiTransport>(failed_); }

 private:
  int rank_ = 0;
  int ranks_ = 0;
  bool failed_ = false;
};

}  // namespace

bool mpi_is_compiled_in() {
  return true;
}

std::unique_ptr<MpiSession> start_mpi() {
  return std::make_unique<Session>();
}

}  // namespace trireme::comm

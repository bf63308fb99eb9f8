// Sleeping, waking and dying; see peers.h.
#include "trireme/comm/transport/shm/peers.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

namespace trireme::comm::shm {
namespace {

// Sleeps while *word == value, at most this long. May return early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::nanoseconds at_most) {
  if (at_most.count() <= 0) return;
  const timespec time{.tv_sec = static_cast<time_t>(at_most.count() / 1'000'000'000),
                      .tv_nsec = static_cast<long>(at_most.count() % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// Makes every store that another rank made before now visible, so that the rank that wakes another needs no
// fence: the rank that goes to sleep pays for it. False if the kernel cannot do this; sleeps are then kept
// short.
bool register_global_barrier() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void global_barrier() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

int open_pidfd(int rank, int pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) {
    throw_error(
        "shm: rank {} (pid {}) cannot be watched: {}; it died during the start, or the kernel is "
        "older than 5.3: use --transport tcp",
        rank, pid, std::strerror(errno));
  }
  return fd;
}

}  // namespace

Peers::Peers(const Segments& segments, int rank)
    : segments_(segments.of_rank),
      pids_(segments.pids),
      rank_(rank),
      job_(&segments.of_rank[0]->control().job),
      barrier_works_(register_global_barrier()),
      crowded_(static_cast<int>(pids_.size()) > segments.processors) {
  for (int r = 0; r < static_cast<int>(pids_.size()); ++r) {
    pidfds_.push_back(r == rank ? -1 : open_pidfd(r, pids_[r]));
  }
}

Peers::~Peers() {
  segments_[rank_]->control().state.store(State::left);
  ring_bells(job_->sleeping.load());
  for (int fd : pidfds_) {
    if (fd >= 0) close(fd);
  }
}

std::string Peers::describe(int rank) const {
  return fmt::format("rank {} (pid {})", rank, pids_[rank]);
}

void Peers::end_job(Failure failure, int rank, std::string_view text) {
  uint32_t none = 0;
  if (job_->failed.compare_exchange_strong(none, 1)) {
    const size_t bytes = std::min(text.size(), job_->reason.size() - 1);
    std::memcpy(job_->reason.data(), text.data(), bytes);
    job_->reason[bytes] = '\0';
    job_->failure = static_cast<uint32_t>(failure);
    job_->failed_rank = rank;
    job_->failed.store(2);
  }
  ring_bells(job_->sleeping.load());
}

void Peers::fail(Failure failure, int rank, const std::string& text) {
  end_job(failure, rank, text);
  throw_failure();
}

void Peers::throw_failure() const {
  // The writer may have been killed between its two stores: do not wait for ever.
  for (int i = 0; i < 100 && job_->failed.load() != 2; ++i) usleep(1000);
  if (job_->failed.load() != 2) throw PeerError(Failure::aborted, -1, "another rank failed");
  throw PeerError(static_cast<Failure>(job_->failure), job_->failed_rank, job_->reason.data());
}

void Peers::ring_bells(uint64_t mask) {
  for_bits(mask & ~bit(rank_), [&](int rank) {
    std::atomic<uint32_t>& bell = segments_[rank]->control().bell;
    bell.fetch_add(1);
    futex_wake(bell);
  });
}

uint32_t Peers::announce_sleep() {
  const uint32_t rings = segments_[rank_]->control().bell.load();
  job_->sleeping.fetch_or(bit(rank_));
  // A waker stores, then looks whether anyone sleeps, without a fence between the two: that would cost it a
  // round trip between cores for every message. This is the fence, on all cores.
  if (barrier_works_) global_barrier();
  return rings;
}

void Peers::wait_for_bell(uint32_t rings, std::chrono::nanoseconds at_most) {
  constexpr std::chrono::nanoseconds kWithoutBarrier = std::chrono::milliseconds(1);
  futex_wait(segments_[rank_]->control().bell, rings,
             barrier_works_ ? at_most : std::min(at_most, kWithoutBarrier));
}

void Peers::end_sleep() {
  job_->sleeping.fetch_and(~bit(rank_));
}

uint64_t Peers::left() const {
  uint64_t mask = 0;
  for (size_t r = 0; r < segments_.size(); ++r) {
    if (segments_[r]->control().state.load() == State::left) mask |= bit(static_cast<int>(r));
  }
  return mask;
}

void Peers::look() {
  std::vector<pollfd> polled(pidfds_.size());
  for (size_t r = 0; r < pidfds_.size(); ++r) polled[r] = {.fd = pidfds_[r], .events = POLLIN, .revents = 0};
  if (poll(polled.data(), polled.size(), 0) <= 0) return;
  const uint64_t gone = left();  // read after the poll: a rank leaves first and ends then
  for (int r = 0; r < static_cast<int>(polled.size()); ++r) {
    if (polled[r].revents == 0) continue;
    if ((gone & bit(r)) == 0) fail(Failure::died, r, describe(r) + " died");
    close(pidfds_[r]);
    pidfds_[r] = -1;
  }
}

char Peers::process_state(int rank) const {
  std::ifstream file(fmt::format("/proc/{}/stat", pids_[rank]));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // the name may hold anything, also ')'
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '?' : line[name_end + 2];
}

}  // namespace trireme::comm::shm

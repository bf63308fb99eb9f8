// The other ranks of the job as living processes: waking them, sleeping until they wake this one, noticing
// that one died or left, and ending the job on all of them with one reason.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/transport/shm/shared_memory.h"

namespace trireme::comm::shm {

class Peers {
 public:
  Peers(const Segments& segments, int rank);
  ~Peers();  // tells the others that this rank left
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Throws what ended the job, if anything did.
  void check() const {
    if (job_->failed.load(std::memory_order_relaxed) != 0) throw_failure();
  }
  bool failed() const { return job_->failed.load(std::memory_order_relaxed) != 0; }
  // Ends the job on all ranks and throws. Where it had already ended, throws that first reason.
  [[noreturn]] void fail(Failure failure, int rank, const std::string& text);
  // The same without throwing.
  void end_job(Failure failure, int rank, std::string_view text);

  // To be called after a store that ranks in this mask may wait for. Nearly always one load and one test.
  void wake(uint64_t mask) {
    const uint64_t asleep = job_->sleeping.load(std::memory_order_relaxed) & mask;
    if (asleep != 0) ring_bells(asleep);
  }

  // Sleeps until woken or at most so long, unless `ready` says, once sleeping was announced, that there is
  // something to do.
  template <typename Ready>
  void sleep(std::chrono::nanoseconds at_most, const Ready& ready) {
    const uint32_t rings = announce_sleep();
    if (!ready() && !failed()) wait_for_bell(rings, at_most);
    end_sleep();
  }

  // Looks for the dead: throws when a rank died that had not left.
  void look();
  // Ranks that left; what they sent before is there to be read.
  uint64_t left() const;
  // 'T' is a stopped process, as /proc has it; '?' when it cannot be found out.
  char process_state(int rank) const;

  std::string describe(int rank) const;  // "rank 2 (pid 123)"
  bool crowded() const { return crowded_; }

 private:
  [[noreturn]] void throw_failure() const;
  void ring_bells(uint64_t mask);
  uint32_t announce_sleep();
  void wait_for_bell(uint32_t rings, std::chrono::nanoseconds at_most);
  void end_sleep();

  std::vector<std::shared_ptr<SharedMemory>> segments_;
  std::vector<int> pids_;
  std::vector<int> pidfds_;
  int rank_;
  Job* job_;
  bool barrier_works_;
  bool crowded_;  // more ranks than processors: who spins keeps another from working
};

}  // namespace trireme::comm::shm

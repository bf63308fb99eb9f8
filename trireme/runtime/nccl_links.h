// Ranks that NCCL has joined, and the calls that are under way between them. A thread looks after these: NCCL
// itself waits for a rank that is gone for ever, and so would whoever waits for the GPU. When a call takes
// longer than the timeout, or NCCL reports an error, all links are aborted, which ends what waits on the GPU,
// and from then on every call throws the same Error.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "trireme/runtime/nccl_library.h"

namespace trireme {

// One of NCCL's communicators.
struct NcclLink {
  std::string name;         // for messages: "the axis data"
  int rank = 0, ranks = 1;  // this one's number among those that are joined
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
};

class NcclLinks {
 public:
  // Calls begin behind what `compute` has been given by then.
  NcclLinks(int device, cudaStream_t compute, double timeout_seconds);
  ~NcclLinks();  // when an exception is under way, others are not waited for
  NcclLinks(const NcclLinks&) = delete;

  // A stream of its own for links whose calls go one after another, in the same order on all ranks.
  cudaStream_t make_stream();
  // Collective over the ranks that are joined, which all give the same id. The reference stays.
  NcclLink& join(const std::string& name, int rank, int ranks, const ncclUniqueId& id, cudaStream_t stream);

  // Something that is done to the memory at `data` by start(comm, stream), which returns NCCL's result.
  struct Work {
    const char* what;  // "all_reduce"
    const std::byte* data;
    size_t bytes;
  };
  template <typename Start>
  void begin(NcclLink& link, const Work& work, const Start& start) {
    const std::lock_guard lock(mutex_);
    refuse_if_failed();
    follow_compute(link);
    settle(link, start(link.comm, link.stream), work.what);
    note(link, work);
  }
  // What is given to the computing stream from now on waits for the first that was begun on this memory.
  void wait(const std::byte* data);
  void check();  // throws when something has failed

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    cudaEvent_t done = nullptr;
    const NcclLink* link = nullptr;
    Work work = {};
    uint64_t number = 0;  // in the order of their beginnings
    Clock::time_point since = {};
    bool under_way = false, awaited = false;  // neither: free for the next
  };

  void refuse_if_failed() const;
  void follow_compute(NcclLink& link);
  void settle(NcclLink& link, ncclResult_t result, const char* what);
  void note(NcclLink& link, const Work& work);
  void fail(const NcclLink& link, const char* what, const std::string& why);
  void abort();
  void leave();
  void look_after();
  bool all_well(Clock::time_point now);

  const int device_;
  const cudaStream_t compute_;
  const Clock::duration timeout_;
  const int exceptions_;
  cudaEvent_t ready_ = nullptr;
  std::deque<cudaStream_t> streams_;
  std::deque<NcclLink> links_;
  std::deque<Call> calls_;
  uint64_t begun_ = 0;
  std::string failure_;  // "": none
  bool ended_ = false;
  std::mutex mutex_;  // of all above
  std::condition_variable end_;
  std::thread watch_;
};

}  // namespace trireme

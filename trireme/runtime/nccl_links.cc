// See nccl_links.h. Communicators do not block: NCCL says that a call is in progress where it still connects
// ranks, so that here, too, one that does not come is noticed.
#include "trireme/runtime/nccl_links.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/kernels/cuda/context.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kLookAfter{50};   // how often calls are looked after
constexpr std::chrono::microseconds kConnecting{50};  // and ranks that are being connected

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

NcclLinks::NcclLinks(int device, cudaStream_t compute, double timeout_seconds)
    : device_(device),
      compute_(compute),
      timeout_(clock_duration(timeout_seconds)),
      exceptions_(std::uncaught_exceptions()) {
  cuda::check(cudaSetDevice(device), "choosing the device");
  cuda::check(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "an event");
  watch_ = std::thread([this] { look_after(); });
}

NcclLinks::~NcclLinks() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  end_.notify_all();
  watch_.join();
  if (failure_.empty() && std::uncaught_exceptions() == exceptions_)
    leave();
  else
    abort();
  for (const Call& call : calls_) cudaEventDestroy(call.done);
  for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  cudaEventDestroy(ready_);
}

cudaStream_t NcclLinks::make_stream() {
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  return streams_.emplace_back(stream);
}

NcclLink& NcclLinks::join(const std::string& name, int rank, int ranks, const ncclUniqueId& id,
                          cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  refuse_if_failed();
  NcclLink& link = links_.emplace_back(NcclLink{name, rank, ranks, stream});
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  settle(link, nccl().ncclCommInitRankConfig(&link.comm, ranks, id, rank, &config),
         "joining ranks, one for each GPU,");
  return link;
}

void NcclLinks::refuse_if_failed() const {
  if (!failure_.empty()) throw Error(failure_);
}

void NcclLinks::check() {
  const std::lock_guard lock(mutex_);
  refuse_if_failed();
}

void NcclLinks::follow_compute(NcclLink& link) {
  cuda::check(cudaEventRecord(ready_, compute_), "an event");
  cuda::check(cudaStreamWaitEvent(link.stream, ready_, 0), "waiting for another stream");
}

void NcclLinks::settle(NcclLink& link, ncclResult_t result, const char* what) {
  const Clock::time_point give_up = Clock::now() + timeout_;
  while (result == ncclInProgress && Clock::now() < give_up) {
    std::this_thread::sleep_for(kConnecting);
    if (const ncclResult_t asked = nccl().ncclCommGetAsyncError(link.comm, &result); asked != ncclSuccess)
      result = asked;
  }
  if (result == ncclSuccess) return;
  fail(link, what,
       result == ncclInProgress
           ? fmt::format("not all have come within {} s: one is gone, or far behind", seconds_of(timeout_))
           : fmt::format("{} ({})", nccl().ncclGetErrorString(result), nccl().ncclGetLastError(link.comm)));
  refuse_if_failed();
}

void NcclLinks::note(NcclLink& link, const Work& work) {
  auto free = calls_.begin();
  while (free != calls_.end() && (free->under_way || free->awaited)) ++free;
  if (free == calls_.end()) {
    free = calls_.emplace(calls_.end());
    cuda::check(cudaEventCreateWithFlags(&free->done, cudaEventDisableTiming), "an event");
  }
  cuda::check(cudaEventRecord(free->done, link.stream), "an event");
  *free = {free->done, &link, work, begun_++, Clock::now(), true, true};
}

void NcclLinks::wait(const std::byte* data) {
  const std::lock_guard lock(mutex_);
  refuse_if_failed();
  Call* first = nullptr;
  for (Call& call : calls_) {
    if (call.awaited && call.work.data == data && (!first || call.number < first->number)) first = &call;
  }
  TRIREME_CHECK(first != nullptr);
  cuda::check(cudaStreamWaitEvent(compute_, first->done, 0), "waiting for another stream");
  first->awaited = false;
}

void NcclLinks::fail(const NcclLink& link, const char* what, const std::string& why) {
  failure_ = fmt::format("NCCL: {} over {} ({} ranks, of which this is {}): {}", what, link.name, link.ranks,
                         link.rank, why);
  abort();
}

void NcclLinks::abort() {
  for (NcclLink& link : links_) {
    if (link.comm) nccl().ncclCommAbort(std::exchange(link.comm, nullptr));
  }
}

// All ranks are there: what is under way comes to its end.
void NcclLinks::leave() {
  try {
    for (NcclLink& link : links_) {
      settle(link, nccl().ncclCommFinalize(link.comm), "leaving");
      nccl().ncclCommDestroy(std::exchange(link.comm, nullptr));
    }
  } catch (const Error&) {
    abort();  // the run is over, and has said what it had to
  }
}

void NcclLinks::look_after() {
  cudaSetDevice(device_);
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, kLookAfter, [&] { return ended_ || !failure_.empty(); })) {
    if (!all_well(Clock::now())) return;
  }
}

bool NcclLinks::all_well(Clock::time_point now) {
  for (Call& call : calls_) {
    if (!call.under_way) continue;
    call.under_way = cudaEventQuery(call.done) == cudaErrorNotReady;  // other errors reach the compute stream
    if (!call.under_way || now - call.since < timeout_) continue;
    fail(*call.link, call.work.what,
         fmt::format("{} are not through after {} s. A rank is gone or stuck, or a step takes longer; then "
                     "raise the timeout",
                     format_bytes(call.work.bytes), seconds_of(timeout_)));
    return false;
  }
  for (const NcclLink& link : links_) {
    ncclResult_t state = ncclSuccess;
    nccl().ncclCommGetAsyncError(link.comm, &state);
    if (state == ncclSuccess || state == ncclInProgress) continue;
    fail(link, "a call",
         fmt::format("{} ({})", nccl().ncclGetErrorString(state), nccl().ncclGetLastError(link.comm)));
    return false;
  }
  return true;
}

}  // namespace trireme

// Whether a run was asked to stop, or its time is up: ranks may know of it at different steps, and stop
// together.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "trireme/train/trainer.h"

namespace trireme {

// Why a run ends before its last step. Where ranks have different reasons, the last of these stands.
// kRegroup: the ranks will be started again, in another number.
enum class StopReason : int32_t { kNone, kRegroup, kTimeIsUp, kAsked };

class StopAgreement {
 public:
  using Clock = std::chrono::steady_clock;
  // `stop` becomes true where this rank is asked to, `regroup` where its launcher wants to start it again;
  // null: never. From `deadline` on it stops by itself. All that is given outlives it.
  StopAgreement(const RankOptions& ranks, const Trainer& trainer, const std::atomic<bool>* stop,
                Clock::time_point deadline = Clock::time_point::max(),
                const std::atomic<bool>* regroup = nullptr);
  ~StopAgreement();  // waits for what is under way
  StopAgreement(const StopAgreement&) = delete;
  StopAgreement& operator=(const StopAgreement&) = delete;

  StopReason reason() const;  // of this rank
  bool asked() const { return reason() == StopReason::kAsked; }
  void tell() { told_ = true; }  // that it is asked to, by somebody who is not among those that agree
  // After so many steps, on all ranks: why any of them stops, as far as they have agreed. At once where they
  // hear of each other in that step. Where what they say to each other takes a delay, so does this: waiting
  // for it would cost what the delay gains.
  StopReason agreed_after(int64_t steps);

 private:
  StopReason agreed_now();

  const RankOptions& ranks_;
  const Trainer& trainer_;
  const std::atomic<bool>* stop_;
  Clock::time_point deadline_;
  const std::atomic<bool>* regroup_;
  Mesh inside_;        // the axes along which the ranks of a replica lie
  int64_t delay_ = 0;  // steps; 0: none
  int32_t flag_ = 0;   // of which the maximum is under way
  bool under_way_ = false;
  bool told_ = false;
};

}  // namespace trireme

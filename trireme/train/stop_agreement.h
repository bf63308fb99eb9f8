// Whether a run was asked to stop: ranks may hear of it at different steps, and stop together.
#pragma once

#include <atomic>
#include <cstdint>

#include "trireme/train/trainer.h"

namespace trireme {

class StopAgreement {
 public:
  // `stop` becomes true where this rank is asked to; null: never. All that is given outlives it.
  StopAgreement(const RankOptions& ranks, const Trainer& trainer, const std::atomic<bool>* stop);
  ~StopAgreement();  // waits for what is under way
  StopAgreement(const StopAgreement&) = delete;
  StopAgreement& operator=(const StopAgreement&) = delete;

  bool asked() const { return told_ || (stop_ && stop_->load()); }  // this rank
  void tell() { told_ = true; }  // that it is, by somebody who is not among those that agree
  // After so many steps, on all ranks: whether any was, as far as they have agreed. At once where they hear
  // of each other in that step. Where what they say to each other takes a delay, so does this: waiting for it
  // would cost what the delay gains.
  bool agreed_after(int64_t steps);

 private:
  bool agreed_now();

  const RankOptions& ranks_;
  const Trainer& trainer_;
  const std::atomic<bool>* stop_;
  int64_t delay_ = 0;  // steps; 0: none
  int32_t flag_ = 0;   // of which the maximum is under way
  bool under_way_ = false;
  bool told_ = false;
};

}  // namespace trireme

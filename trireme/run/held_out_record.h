// What a run's evaluations on held-out data have shown so far: which checkpoint has the lowest loss
// (run.keep_best), and for how many evaluations the loss has not fallen (train.patience). All ranks see the
// same losses and come to the same result. Checkpoints keep it, so that a resumed run continues with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/run/options.h"

namespace trireme {

class HeldOutRecord {
 public:
  enum class HeldOut { kNone, kSome };
  // Throws Error if the settings need held-out data and there is none.
  HeldOutRecord(const Config& config, HeldOut data);

  // The loss of an evaluation. Returns whether the checkpoint of this step should be saved as the best.
  bool add(int64_t step, double loss);
  // The checkpoint of this step could not be written: what was the best before is the best again.
  void not_saved(int64_t step);

  struct Best {
    int64_t step = 0;
    double loss = 0;
  };
  const std::optional<Best>& best() const { return best_; }
  void forget_best() { best_.reset(); }  // its checkpoint is gone
  // Whether train.patience evaluations in a row had no lower loss than those before.
  bool out_of_patience() const { return patience_ > 0 && since_lowest_ >= patience_; }
  int64_t evaluations_since_lowest() const { return since_lowest_; }

  // Adds the record to the JSON object of TrainState::extra, and takes it from there. An object without a
  // record leaves this one as it is. `where` opens the message of the Error that a damaged record gives.
  std::string added_to(std::string_view extra) const;
  void restore(std::string_view extra, std::string_view where);

 private:
  bool keeps_best_;
  int64_t patience_;
  std::optional<double> lowest_;
  int64_t since_lowest_ = 0;  // evaluations
  std::optional<Best> best_, best_before_;
};

// The best checkpoint of the run that wrote this TrainState::extra; nothing where none was kept.
std::optional<HeldOutRecord::Best> best_checkpoint(std::string_view extra, std::string_view where);

}  // namespace trireme

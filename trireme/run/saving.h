// When a run writes its checkpoints, and how: while training waits or in the background, and again later
// after one could not be written. checkpoint/checkpoint.h has what is in them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/checkpoint/checkpoint.h"
#include "trireme/run/bad_steps.h"
#include "trireme/run/checkpoint_interval.h"
#include "trireme/run/held_out_record.h"
#include "trireme/run/options.h"
#include "trireme/train/trainer.h"

namespace trireme {

// All functions are collective: every rank that saves calls them after the same steps.
class Saving {
 public:
  enum class Mode { kTrainingWaits, kInBackground };
  // What the run gives and what it hears. `state` returns what a checkpoint has beside the trainer's tensors;
  // it is called when the trainer is about to be copied or written. `failed` is called when a checkpoint was
  // not written and will be tried again after step `next`.
  struct Events {
    std::function<TrainState(int64_t step)> state;
    std::function<void(const std::string& path)> saved;
    std::function<void(const NotSaved& error, int64_t next)> failed;
    std::function<void(const std::string& line)> interval = nullptr;  // an automatic one, found anew
  };
  // All that is given by reference must outlive it.
  Saving(const Config& config, Mode mode, Checkpoints& checkpoints, Trainer& trainer,
         const RankOptions& ranks, HeldOutRecord& held_out, BadSteps& bad_steps, Events events);

  // Whether a checkpoint should be written after this step: every run.checkpoint_every steps or as often as
  // is best, and where one is tried again.
  bool is_due(int64_t step) const;
  // Writes a checkpoint, or begins to in the background. One that can not be written ends nothing, because
  // the run has more to lose than a checkpoint: it is tried again after 1, 2, 4, … steps.
  void try_to_save(int64_t step);
  // To be called after every step: finds out whether the checkpoint in the background is complete. Before an
  // evaluation waits for it where the run keeps the best, since what is best so far depends on whether the
  // last best was saved.
  void poll(int64_t step);
  // Writes the last checkpoint. Throws NotSaved.
  void save(int64_t step);
  // Waits for the checkpoint in the background, if there is one.
  void finish(int64_t step);

  const std::string& newest() const { return newest_; }  // path; "": none yet
  void resumed_from(const std::string& path) { newest_ = path; }

 private:
  void attempt(int64_t saving, int64_t step, const std::function<void()>& write);
  TrainState state_after(int64_t step);
  void begin_or_save(int64_t step);
  bool has_automatic_interval() const;
  int64_t next_save(int64_t step) const;
  void has_saved(const std::string& path);

  const Config& config_;
  const Mode mode_;
  Checkpoints& checkpoints_;
  Trainer& trainer_;
  const RankOptions& ranks_;
  HeldOutRecord& held_out_;
  BadSteps& bad_steps_;
  const Events events_;
  CheckpointInterval interval_;  // with run.checkpoint_every=auto
  std::string newest_;
  int64_t saving_ = 0;                      // the step of the checkpoint that is being written
  int64_t retry_at_ = 0, retry_after_ = 0;  // steps; 0: nothing to try again
};

}  // namespace trireme

// See saving.h.
#include "trireme/run/saving.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "trireme/train/rank_states.h"

namespace trireme {

Saving::Saving(const Config& config, Mode mode, Checkpoints& checkpoints, Trainer& trainer,
               const RankOptions& ranks, HeldOutRecord& held_out, BadSteps& bad_steps, Events events)
    : config_(config),
      mode_(mode),
      checkpoints_(checkpoints),
      trainer_(trainer),
      ranks_(ranks),
      held_out_(held_out),
      bad_steps_(bad_steps),
      events_(std::move(events)),
      interval_(config.run.hours_between_failures, ranks) {}

bool Saving::is_due(int64_t step) const {
  const int64_t every = config_.run.checkpoint_every;
  if (has_automatic_interval() && interval_.is_due(step)) return true;
  return step == retry_at_ || (every > 0 && step % every == 0);
}

bool Saving::has_automatic_interval() const {
  return config_.run.checkpoint_every == RunOptions::kAutomaticInterval;
}

void Saving::try_to_save(int64_t step) {
  const Clock::time_point began = Clock::now();
  begin_or_save(step);
  if (has_automatic_interval()) events_.interval(interval_.wrote(step, began));
}

void Saving::begin_or_save(int64_t step) {
  if (mode_ == Mode::kTrainingWaits) return attempt(step, step, [&] { save(step); });
  finish(step);
  attempt(step, step, [&] {
    begin_save(checkpoints_, state_after(step), trainer_, ranks_);
    saving_ = step;
  });
}

void Saving::poll(int64_t step) {
  interval_.stepped(step);
  if (!checkpoints_.is_under_way() || !trainer_.agrees_after(step)) return;
  const int64_t every = config_.train.eval_every;
  if (config_.run.keep_best && every > 0 && step % every == 0) return finish(step);
  attempt(saving_, step, [&] {
    if (const std::optional<std::string> path = checkpoints_.poll()) has_saved(*path);
  });
}

void Saving::save(int64_t step) {
  finish(step);
  has_saved(trireme::save(checkpoints_, state_after(step), trainer_, ranks_));
}

void Saving::finish(int64_t step) {
  if (checkpoints_.is_under_way()) attempt(saving_, step, [&] { has_saved(checkpoints_.settle()); });
}

void Saving::attempt(int64_t saving, int64_t step, const std::function<void()>& write) {
  try {
    write();
  } catch (const NotSaved& error) {
    held_out_.not_saved(saving);
    bad_steps_.not_saved(saving);
    retry_after_ = std::max<int64_t>(1, 2 * retry_after_);
    retry_at_ = step + retry_after_;
    events_.failed(error, next_save(step));
  }
}

TrainState Saving::state_after(int64_t step) {
  TrainState state = events_.state(step);
  state.step = step;
  state.extra = held_out_.added_to(state.extra);
  std::set<int64_t> kept;
  if (held_out_.best()) kept.insert(held_out_.best()->step);
  if (bad_steps_.rewinds()) kept.insert(bad_steps_.rewind_to());
  checkpoints_.always_keep(std::move(kept));
  return state;
}

// The step after which a checkpoint is written next: when one is tried again, due, or the last.
int64_t Saving::next_save(int64_t step) const {
  const int64_t every = config_.run.checkpoint_every;
  int64_t next = std::min(retry_at_, config_.train.steps);
  if (every > 0) next = std::min(next, (step / every + 1) * every);
  if (has_automatic_interval()) next = std::min(next, std::max(step + 1, interval_.next()));
  return next;
}

void Saving::has_saved(const std::string& path) {
  newest_ = path;
  retry_at_ = retry_after_ = 0;
  events_.saved(path);
}

}  // namespace trireme

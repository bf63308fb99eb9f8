// See server_steps.h.
#include "trireme/train/server_steps.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/exchange/served.h"

namespace trireme {
namespace {

constexpr auto kNothing = [](const Runner::Turn&) {};

}  // namespace

ServerSteps::ServerSteps(const Servers& servers, Trainer& trainer, Communicator& communicator, int64_t first,
                         int64_t steps, std::optional<std::map<int64_t, Arrivals>> replay)
    : servers_(servers),
      trainer_(trainer),
      communicator_(communicator),
      steps_(steps),
      replay_(std::move(replay)),
      updates_(by_clocks() ? first : first * servers.workers) {
  for (int number = 0; number < servers.workers; ++number) {
    workers_.push_back(
        {.number = number, .rank = servers.rank_of(number), .clock = first, .version = updates_});
  }
  says_over_ = over_ = kIsThrough;  // so that the other is set once
  say_over(kGoesOn);
  for (Worker& worker : workers_) expect_push(worker);
}

ServerSteps::~ServerSteps() {
  for (const Worker& worker : workers_) {
    if (!worker.memory) continue;
    try {
      communicator_.wait(worker.memory);
    } catch (const Error&) {
      // It will not come, and the transport has let go of the memory.
    }
  }
}

StepResult ServerSteps::step(int64_t step, double rate) {
  expect_somebody();
  arrivals_.clear();
  taken_ = stalest_ = stale_sum_ = 0;
  StepResult result = by_clocks() ? clock_step(step, rate) : arrival_step(step, rate);
  while (replay_ && has_more(step)) {  // who was lost while it was given weights
    if (replay_->at(step + 1)[arrivals_.size()] > 0)
      throw_error(
          "step {} was through after {} of the {} arrivals of the run that is replayed; it is the log of a "
          "run with another plan",
          step + 1, arrivals_.size(), replay_->at(step + 1).size());
    replayed(step);
  }
  if (servers_.count > 1) taken_arrivals_[step + 1] = arrivals_;
  result.staleness_mean = static_cast<double>(stale_sum_) / static_cast<double>(std::max<int64_t>(1, taken_));
  result.staleness_max = static_cast<double>(stalest_);
  return result;
}

StepResult ServerSteps::clock_step(int64_t step, double rate) {
  while (!has_all(step)) {
    Worker* worker = next_arrival(step);
    if (!worker) continue;
    note_staleness(worker->clock - worker->version);
    ++worker->clock;
    worker->state = Worker::State::kWaits;
    answer_waiting();
  }
  StepResult result = apply(push_slot(servers_, 0, step), step, rate);
  ++updates_;
  answer_waiting();
  return result;
}

StepResult ServerSteps::arrival_step(int64_t step, double rate) {
  StepResult all;
  const double share = 1.0 / servers_.workers;
  for (int taken = 0; taken < servers_.workers;) {
    Worker* worker = next_arrival(step);
    if (!worker) continue;
    ++taken;
    const int64_t staleness = updates_ - worker->version;
    note_staleness(staleness);
    const bool slower = servers_.rate == Servers::Rate::kByStaleness && staleness > 1;
    const StepResult one = apply(push_slot(servers_, worker->number, worker->clock), updates_,
                                 slower ? rate / static_cast<double>(staleness) : rate);
    all.loss += share * one.loss;
    all.norm += share * one.norm;
    all.skipped |= one.skipped;
    ++updates_;
    ++worker->clock;
    answer(*worker, servers_.count == 1 && updates_ == steps_ * servers_.workers ? Over::kYes : Over::kNo);
  }
  return all;
}

void ServerSteps::finish(Why why) {
  over_ = why == Why::kStopped ? kIsStopped : kIsThrough;
  if (servers_.count > 1) return finish_together();
  for (Worker* worker : in_state(Worker::State::kWaits)) answer(*worker, Over::kYes);
  for (auto left = in_state(Worker::State::kComputes); !left.empty();
       left = in_state(Worker::State::kComputes)) {
    if (Worker* worker = first_of(left)) answer(*worker, Over::kYes);
  }
}

// Servers may have heard of different steps of a worker: all let it go after one that none has heard of.
void ServerSteps::finish_together() {
  std::vector<int64_t> last;
  for (const Worker& worker : workers_) last.push_back(worker.clock + 1);
  communicator_.all_reduce(kServerAxis, reinterpret_cast<std::byte*>(last.data()), std::ssize(last),
                           DType::i64, Communicator::Reduction::kMax);
  for (Worker* worker : in_state(Worker::State::kWaits)) answer(*worker, Over::kNo);
  for (auto left = in_state(Worker::State::kComputes); !left.empty();
       left = in_state(Worker::State::kComputes)) {
    Worker* worker = first_of(left);
    if (worker)
      answer(*worker, ++worker->clock == last[static_cast<size_t>(worker->number)] ? Over::kYes : Over::kNo);
  }
}

std::vector<ServerSteps::Worker*> ServerSteps::in_state(Worker::State state) {
  std::vector<Worker*> found;
  for (size_t i = 1; i <= workers_.size(); ++i) {  // not always the same one first
    Worker& worker = workers_[(static_cast<size_t>(last_) + i) % workers_.size()];
    if (worker.state == state) found.push_back(&worker);
  }
  return found;
}

// Of those who are there.
bool ServerSteps::has_all(int64_t step) const {
  return std::ranges::all_of(workers_, [&](const Worker& worker) {
    return worker.state == Worker::State::kLost || worker.clock > step;
  });
}

// Of the run that is replayed.
bool ServerSteps::has_more(int64_t step) const {
  const auto of_step = replay_->find(step + 1);
  return of_step != replay_->end() && arrivals_.size() < of_step->second.size();
}

// Who has sent gradients next; null where somebody was lost instead.
ServerSteps::Worker* ServerSteps::next_arrival(int64_t step) {
  Worker* worker = replay_ ? replayed(step) : first_of(in_state(Worker::State::kComputes));
  if (worker) arrivals_.push_back(worker->rank);
  if (worker) read_news(*worker);
  expect_somebody();
  return worker;
}

void ServerSteps::expect_somebody() {
  if (in_state(Worker::State::kLost).size() == workers_.size())
    throw_error("all workers are lost, so that no gradients will come");
}

ServerSteps::Worker* ServerSteps::first_of(const std::vector<Worker*>& workers) {
  std::vector<const std::byte*> awaited;
  for (const Worker* worker : workers) awaited.push_back(worker->memory);
  const Communicator::Arrived arrived = communicator_.wait_any(awaited, Communicator::Silence::kOfOne);
  Worker& worker = *workers[arrived.number];
  last_ = worker.number;
  worker.memory = nullptr;
  if (arrived.lost.empty()) return &worker;
  lose(worker, arrived.lost);
  return nullptr;
}

// Whose turn it was. One who was lost then is let go of, when its next gradients have come.
ServerSteps::Worker* ServerSteps::replayed(int64_t step) {
  const auto of_step = replay_->find(step + 1);
  if (of_step == replay_->end())
    throw_error("step {} is to be replayed, but the log of the run before has no arrivals of it", step + 1);
  if (!has_more(step))
    throw_error(
        "step {} is not through after the {} arrivals of the run that is replayed; it is the log of a run "
        "with another plan",
        step + 1, arrivals_.size());
  const int named = of_step->second[arrivals_.size()];
  Worker& worker = workers_[static_cast<size_t>(std::abs(named) - servers_.rank_of(0))];
  const bool was_lost = named < 0;
  const bool waits = worker.state == Worker::State::kWaits;
  if (was_lost ? worker.state == Worker::State::kLost : worker.state != Worker::State::kComputes)
    throw_error(
        "in step {} the run that is replayed took gradients of rank {} next, but that one {}; it is the log "
        "of a run with another plan",
        step + 1, worker.rank, waits ? "has none until others have come" : "is not there any more");
  if (worker.state == Worker::State::kComputes && !first_of({&worker})) return nullptr;
  if (!was_lost) return &worker;
  if (worker.state != Worker::State::kLetGo) answer(worker, Over::kYes);
  lose(worker, "as in the run that is replayed");
  return nullptr;
}

StepResult ServerSteps::apply(int slot, int64_t number, double rate) {
  trainer_.runner().run(trainer_.runner().gradient_turns(), kNothing, kNothing, slot);
  return trainer_.update(number, rate);
}

void ServerSteps::expect_push(Worker& worker) {
  // The list has the slot of the worker itself.
  const int64_t slot = push_slot(servers_, 0, by_clocks() ? worker.clock : 0);
  worker.state = Worker::State::kComputes;
  try {
    worker.memory = trainer_.runner().begin(trainer_.program().list(When::arrival(worker.rank)), slot);
  } catch (const Error& error) {
    if (!communicator_.is_lost(worker.rank)) throw;
    lose(worker, error.what());
  }
}

void ServerSteps::answer(Worker& worker, Over over) {
  say_over(over == Over::kYes ? over_ : kGoesOn);
  try {
    trainer_.run_list(When::tell(worker.rank));
  } catch (const Error& error) {
    if (!communicator_.is_lost(worker.rank)) throw;
    return lose(worker, error.what());
  }
  worker.version = updates_;
  worker.state = Worker::State::kLetGo;
  if (over == Over::kNo) expect_push(worker);
}

// Those whose next gradients are not too far ahead of the slowest.
void ServerSteps::answer_waiting() {
  for (Worker& worker : workers_) {
    if (worker.state == Worker::State::kWaits && worker.clock - updates_ <= servers_.staleness)
      answer(worker, worker.clock == steps_ ? Over::kYes : Over::kNo);
  }
}

void ServerSteps::say_over(float over) {
  if (over == says_over_) return;
  says_over_ = over;
  trainer_.tell(kOver, over);
  trainer_.run_list(When::asked(When::What::kGive));
}

// Servers stop together, so that it is enough if the first one hears of it.
void ServerSteps::read_news(const Worker& worker) {
  const State* pushes = trainer_.program().find_state(push_state(kLeadingServer));
  if (!pushes) return;
  const int slot = push_slot(servers_, worker.number, by_clocks() ? worker.clock : 0);
  const auto* message = reinterpret_cast<const float*>(trainer_.executor().slot_memory(*pushes, slot));
  asked_ |= message[pushes->type.shape.elements() - 1] != 0;
}

// A sum over all workers is then one over the others.
void ServerSteps::lose(Worker& worker, const std::string& why) {
  worker.state = Worker::State::kLost;
  arrivals_.push_back(-worker.rank);
  forget_gradients(worker);
  const size_t left = workers_.size() - in_state(Worker::State::kLost).size();
  notes_.push_back(
      fmt::format("rank {} is lost, {} of {} workers go on: {}", worker.rank, left, workers_.size(), why));
}

void ServerSteps::forget_gradients(const Worker& worker) {
  const State& pushes = *trainer_.program().find_state(push_state(kLeadingServer));
  for (int slot = worker.number; slot < pushes.slots; slot += servers_.workers)
    std::memset(trainer_.executor().slot_memory(pushes, slot), 0, pushes.type.bytes());
}

void ServerSteps::note_staleness(int64_t staleness) {
  ++taken_;
  stale_sum_ += staleness;
  stalest_ = std::max(stalest_, staleness);
}

}  // namespace trireme

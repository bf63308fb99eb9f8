// See arrivals.h.
#include "trireme/runtime/arrivals.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/agreement_record.h"

namespace trireme {

std::unique_ptr<ArrivalDriver> ArrivalDriver::make(const PolicyPlace& place, Runner& runner,
                                                   Communicator* host, std::optional<ArrivalOrder> replay) {
  if (!goes_by_arrivals(place.agreement, place.rank)) return nullptr;
  std::unique_ptr<ArrivalDriver> driver(new ArrivalDriver(place, runner, *host, std::move(replay)));
  driver->policy_->begin();
  return driver;
}

ArrivalDriver::ArrivalDriver(const PolicyPlace& place, Runner& runner, Communicator& host,
                             std::optional<ArrivalOrder> replay)
    : executor_(runner.executor()),
      runner_(runner),
      communicator_(*executor_.communicator()),
      host_(host),
      rank_(place.rank),
      senders_(std::ranges::count(executor_.program().lists, When::Kind::kArrival,
                                  [](const ActionList& list) { return list.when.kind; })),
      silence_(record_of(place.agreement).states == AgreementRecord::States::kServed
                   ? Communicator::Silence::kOfOne
                   : Communicator::Silence::kOfAll),
      replay_(std::move(replay)),
      policy_(record_of(place.agreement).policy(place, *this)) {}

ArrivalDriver::~ArrivalDriver() {
  if (finished_) return;
  try {
    host_.give_up(fmt::format("rank {} has left the run before its end; see what it says", rank_));
  } catch (const Error&) {
    // The job has ended already.
  }
}

void ArrivalDriver::step(int64_t step, const Update& update) {
  number_ = step + 1;
  order_[number_].clear();
  staleness_ = {};
  update_ = &update;
  expect_somebody();
  if (replay_) replayed();  // or an Error, before anything is done
  policy_->start(step);
  while (!policy_->hear(step)) {
  }
  // Who was lost while it was given weights.
  for (auto next = next_replayed(); next; next = next_replayed()) {
    if (*next >= 0)
      throw_error(
          "step {} was through after {} of the {} arrivals of the run that is replayed; it is the log of a "
          "run with another plan",
          number_, order_[number_].size(), replayed().size());
    lose_replayed(-*next);
  }
}

void ArrivalDriver::finish(Why why) {
  order_[++number_].clear();
  ending_ = true;
  policy_->end(why);
  for (const auto& [memory, count] : sends_) await_sends(memory);
  finished_ = true;
}

std::optional<float> ArrivalDriver::take(int rank) {
  const std::byte* const memory = expected_.at(rank).memory;
  if (!replays()) return communicator_.try_wait(memory) ? std::optional(taken(rank)) : std::nullopt;
  if (next_replayed() != rank) return std::nullopt;
  communicator_.wait(memory);
  return taken(rank);
}

ListDriver::Arrival ArrivalDriver::take_first_of(const std::vector<int>& ranks) {
  const int first = replays() ? first_replayed(ranks) : first_of(ranks);
  if (first >= 0) return {first, taken(first)};
  if (!ending_) expect_somebody();
  return {};
}

// Waits until one of them has sent what is expected; −1 where one was lost instead.
int ArrivalDriver::first_of(const std::vector<int>& ranks) {
  std::vector<const std::byte*> awaited;
  for (const int rank : ranks) awaited.push_back(expected_.at(rank).memory);
  const Communicator::Arrived arrived = communicator_.wait_any(awaited, silence_);
  const int first = ranks[arrived.number];
  if (arrived.lost.empty()) return first;
  lose(first, arrived.lost, ArrivalPolicy::Lost::kGone);
  return -1;
}

// The same, of the one that was first then.
int ArrivalDriver::first_replayed(const std::vector<int>& ranks) {
  const std::optional<int> next = next_replayed();
  if (!next)
    throw_error(
        "step {} is not through after the {} arrivals of the run that is replayed; it is the log of a run "
        "with another plan",
        number_, replayed().size());
  if (*next < 0) {
    lose_replayed(-*next);
    return -1;
  }
  if (std::ranges::find(ranks, *next) == ranks.end()) refuse_replay(*next);
  return first_of({*next});
}

// What was expected has come.
float ArrivalDriver::taken(int rank) {
  const Message from = expected_.extract(rank).mapped();
  order_[number_].push_back(rank);
  float status = 0;
  executor_.read_state(from.state->name, from.offset + from.state->type.bytes() - sizeof status, &status,
                       sizeof status);
  return status;
}

template <typename Send>
bool ArrivalDriver::reaches(int rank, const Send& send) {
  try {
    send();
    return true;
  } catch (const Error& error) {
    if (!communicator_.is_lost(rank)) throw;
    lose(rank, error.what(), ArrivalPolicy::Lost::kGone);
    return false;
  }
}

bool ArrivalDriver::expect(int rank, int64_t slot) {
  return reaches(rank, [&] {
    runner_.begin(executor_.program().list(When::arrival(rank)), slot);
    expected_[rank] = message(When::arrival(rank), slot);
  });
}

void ArrivalDriver::begin_telling(int rank, int64_t slot) {
  ++sends_[runner_.begin(executor_.program().list(When::tell(rank)), slot)];
}

bool ArrivalDriver::tell(int rank) {
  return reaches(rank, [&] { runner_.run(When::tell(rank)); });
}

void ArrivalDriver::run(When::What what, int64_t slot) {
  await_sends_before(executor_.program().list(When::asked(what)), slot);
  runner_.run(When::asked(what), slot);
}

void ArrivalDriver::update(int64_t number, int64_t slot, double divisor) {
  await_sends_before(executor_.program().step_list(number + 1), slot);
  (*update_)(number, slot, divisor);
}

void ArrivalDriver::set_status(int rank, int64_t slot, float status) {
  const Message to = message(When::tell(rank), slot);
  await_sends(to.memory);
  executor_.write_state(to.state->name, to.offset + to.state->type.bytes() - sizeof status, &status,
                        sizeof status);
}

void ArrivalDriver::clear(int rank, int64_t slot) {
  const Message from = message(When::arrival(rank), slot);
  const std::vector<std::byte> zeros(from.state->type.bytes());
  executor_.write_state(from.state->name, from.offset, zeros.data(), zeros.size());
}

void ArrivalDriver::agree_on_largest(std::vector<int64_t>& numbers) {
  host_.all_reduce(kServerAxis, reinterpret_cast<std::byte*>(numbers.data()), std::ssize(numbers), DType::i64,
                   Communicator::Reduction::kMax);
}

void ArrivalDriver::note_staleness(int64_t steps) {
  ++staleness_.taken;
  staleness_.sum += steps;
  staleness_.most = std::max(staleness_.most, steps);
}

ArrivalDriver::Message ArrivalDriver::message(const When& list, int64_t slot) const {
  const Runner::Turn& turn = runner_.turns(executor_.program().list(list))[0];
  const int64_t place = (slot + turn.action->slot) % turn.state->slots;
  return {turn.state, turn.state->stride() * static_cast<size_t>(place),
          executor_.slot_memory(*turn.state, place)};
}

void ArrivalDriver::await_sends(const std::byte* memory) {
  const auto found = sends_.find(memory);
  while (found != sends_.end() && found->second > 0) {
    communicator_.wait(memory);
    --found->second;
  }
}

void ArrivalDriver::await_sends_before(const ActionList& list, int64_t slot) {
  const Program& program = executor_.program();
  for (const Runner::Turn& turn : runner_.turns(list)) {
    if (!turn.runs()) continue;
    const Graph& graph = program.segments[static_cast<size_t>(turn.segment)].graph;
    for (const trireme::Update& made : graph.updates) {
      const Value& state = graph.values[made.state];
      if (state.role == Role::kMessage)
        await_sends(executor_.slot_memory(*program.find_state(state.name), slot + turn.action->slot));
    }
  }
}

void ArrivalDriver::lose(int rank, const std::string& why, ArrivalPolicy::Lost how) {
  if (!lost_.insert(rank).second) return;
  expected_.erase(rank);
  policy_->lose(rank, how);
  order_[number_].push_back(-rank);
  notes_.push_back(fmt::format("rank {} is lost, {} of {} workers go on: {}", rank,
                               senders_ - std::ssize(lost_), senders_, why));
}

void ArrivalDriver::expect_somebody() const {
  if (std::ssize(lost_) == senders_) throw_error("all workers are lost, so that no gradients will come");
}

const Arrivals& ArrivalDriver::replayed() const {
  const auto found = replay_->find(number_);
  if (found == replay_->end())
    throw_error("step {} is to be replayed, but the log of the run before has no arrivals of it", number_);
  return found->second;
}

std::optional<int> ArrivalDriver::next_replayed() const {
  if (!replay_) return std::nullopt;
  const size_t taken = order_.at(number_).size();
  return taken < replayed().size() ? std::optional(replayed()[taken]) : std::nullopt;
}

// A rank that was lost then is dropped when its next message has come.
void ArrivalDriver::lose_replayed(int rank) {
  if (lost_.contains(rank)) refuse_replay(rank);
  if (expected_.contains(rank) && first_of({rank}) < 0) return;
  lose(rank, "as in the run that is replayed", ArrivalPolicy::Lost::kReplayed);
}

void ArrivalDriver::refuse_replay(int rank) const {
  throw_error(
      "in step {} the run that is replayed took a message of rank {} next, but that one {}; it is the log of "
      "a run with another plan",
      number_, rank, lost_.contains(rank) ? "is not there any more" : "has none until others have come");
}

}  // namespace trireme

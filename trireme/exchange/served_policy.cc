// A server, or one of several (arrival_policy.h): takes the gradients of workers as they come, lets them make
// updates and gives weights back. A worker needs no policy: it runs its lists in every step.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/arrival_policy.h"
#include "trireme/exchange/served.h"

namespace trireme {
namespace {

class ServedPolicy final : public ArrivalPolicy {
 public:
  ServedPolicy(const PolicyPlace& place, ListDriver& driver)
      : ArrivalPolicy(driver),
        servers_(*place.agreement.servers()),
        steps_(place.steps),
        updates_(by_clocks() ? place.first : place.first * servers_.workers) {
    for (int number = 0; number < servers_.workers; ++number)
      workers_.push_back(
          {.number = number, .rank = servers_.rank_of(number), .clock = place.first, .version = updates_});
  }

  void begin() override {
    give(kGoesOn);
    for (Worker& worker : workers_) expect(worker);
  }

  // One step: the update of all workers' gradients of it; or, where each makes an update, as many as there
  // are workers.
  bool hear(int64_t step) override {
    if (by_clocks()) return hear_clocks(step);
    Worker* const worker = next_arrival();
    if (!worker) return false;
    const int64_t staleness = updates_ - worker->version;
    driver_.note_staleness(staleness);
    const bool slower = servers_.rate == Servers::Rate::kByStaleness && staleness > 1;
    driver_.update(updates_, push_slot(servers_, worker->number, worker->clock),
                   slower ? static_cast<double>(staleness) : 1);
    ++updates_;
    ++worker->clock;
    answer(*worker, servers_.count == 1 && updates_ / servers_.workers == steps_ ? over_ : kGoesOn);
    return updates_ % servers_.workers == 0;
  }

  // Lets all workers go, each when it is heard of next. Several servers may have heard of different steps of
  // a worker: all let it go after one that none has heard of.
  void end(Why why) override {
    over_ = why == Why::kStopped ? kIsStopped : kIsThrough;
    std::vector<int64_t> last;
    for (const Worker& worker : workers_) last.push_back(worker.clock + (servers_.count > 1 ? 1 : 0));
    if (servers_.count > 1) driver_.agree_on_largest(last);
    const auto told = [&](const Worker& worker) {
      return worker.clock >= last[static_cast<size_t>(worker.number)] ? over_ : kGoesOn;
    };
    for (Worker& worker : workers_) {
      if (worker.state == Worker::State::kWaits) answer(worker, told(worker));
    }
    for (auto left = computing(); !left.empty(); left = computing()) {
      const int rank = driver_.take_first_of(left).rank;
      if (rank < 0) continue;
      ++worker_of(rank).clock;
      answer(worker_of(rank), told(worker_of(rank)));
    }
  }

  // A sum over all workers is then one over the others.
  void lose(int rank, Lost how) override {
    Worker& worker = worker_of(rank);
    if (how == Lost::kReplayed && worker.state != Worker::State::kLetGo) answer(worker, over_);
    worker.state = Worker::State::kLost;
    for (int round = 0; round < server_slots(servers_) / servers_.workers; ++round)
      driver_.clear(rank, push_slot(servers_, 0, round));
  }

 private:
  struct Worker {
    int number, rank;
    enum class State {
      kComputes,
      kWaits,  // for weights: its gradients have come
      kLetGo,  // it was told that the run is over
      kLost,
    } state = State::kComputes;
    int64_t clock = 0;    // steps that it has sent gradients of
    int64_t version = 0;  // of the weights that it has: so many updates
  };

  bool by_clocks() const { return servers_.updates == Servers::Updates::kClocks; }
  Worker& worker_of(int rank) { return workers_[static_cast<size_t>(rank - servers_.rank_of(0))]; }

  bool hear_clocks(int64_t step) {
    if (!has_all(step)) {
      Worker* const worker = next_arrival();
      if (!worker) return false;
      driver_.note_staleness(worker->clock - worker->version);
      ++worker->clock;
      worker->state = Worker::State::kWaits;
      answer_waiting();
      if (!has_all(step)) return false;
    }
    driver_.update(step, push_slot(servers_, 0, step));
    ++updates_;
    answer_waiting();
    return true;
  }

  // Of those who are there.
  bool has_all(int64_t step) const {
    return std::ranges::all_of(workers_, [&](const Worker& worker) {
      return worker.state == Worker::State::kLost || worker.clock > step;
    });
  }

  std::vector<int> computing() const {
    std::vector<int> ranks;
    for (size_t i = 1; i <= workers_.size(); ++i) {  // not always the same one first
      const Worker& worker = workers_[(static_cast<size_t>(last_) + i) % workers_.size()];
      if (worker.state == Worker::State::kComputes) ranks.push_back(worker.rank);
    }
    return ranks;
  }

  // Who has sent gradients next; null where nobody has.
  Worker* next_arrival() {
    const ListDriver::Arrival arrival = driver_.take_first_of(computing());
    if (arrival.rank < 0) return nullptr;
    asked_ |= arrival.status != 0;
    last_ = worker_of(arrival.rank).number;
    return &worker_of(arrival.rank);
  }

  void expect(Worker& worker) {
    worker.state = Worker::State::kComputes;
    // The list has the slot of the worker itself.
    driver_.expect(worker.rank, push_slot(servers_, 0, worker.clock));
  }

  void answer(Worker& worker, float over) {
    if (over != says_) give(over);
    worker.version = updates_;
    worker.state = Worker::State::kLetGo;
    if (driver_.tell(worker.rank) && over == kGoesOn) expect(worker);
  }

  // Those whose next gradients are not too far ahead of the slowest.
  void answer_waiting() {
    for (Worker& worker : workers_) {
      if (worker.state == Worker::State::kWaits && worker.clock - updates_ <= servers_.staleness)
        answer(worker, worker.clock == steps_ ? over_ : kGoesOn);
    }
  }

  // Makes the message of weights anew: what it says besides has changed.
  void give(float over) {
    says_ = over;
    driver_.set(kOver, over);
    driver_.run(When::What::kGive);
  }

  const Servers servers_;
  const int64_t steps_;
  int64_t updates_;  // made so far
  std::vector<Worker> workers_;
  int last_ = 0;             // whose turn it was
  float says_ = kGoesOn;     // sent to workers with their weights
  float over_ = kIsThrough;  // sent to them with their last ones
};

}  // namespace

std::unique_ptr<ArrivalPolicy> served_policy(const PolicyPlace& place, ListDriver& driver) {
  return std::make_unique<ServedPolicy>(place, driver);
}

}  // namespace trireme

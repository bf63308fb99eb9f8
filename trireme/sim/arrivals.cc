// See arrivals.h. Each agenda plans what it does at once and then looks again.
#include "trireme/sim/arrivals.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/exchange/gossip.h"

namespace trireme::sim {
namespace {

using What = When::What;

class Planned : public Agenda {
 public:
  Planned(const Track& track, const Window& window)
      : track_(track), step_(track.list(When::step())), steps_(window.before + window.steps) {}

  Turn next(Inbox& inbox) final {
    while (turns_.empty()) plan(inbox);
    const Turn turn = std::move(turns_.front());
    turns_.pop_front();
    return turn;
  }

 protected:
  virtual void plan(Inbox& inbox) = 0;  // at least one turn

  void run(int list) { turns_.push_back({Turn::Kind::kList, list}); }
  void run(const When& when) { run(track_.list(when)); }
  void run_step() { run(step_); }
  void begin_message(int peer) { turns_.push_back({Turn::Kind::kBegin, track_.list(When::tell(peer))}); }
  void await(std::vector<int> ranks) { turns_.push_back({Turn::Kind::kAwait, -1, std::move(ranks)}); }
  void end_step() {
    turns_.push_back({Turn::Kind::kStepEnd});
    if (++made_ == steps_) turns_.push_back({Turn::Kind::kEnd});
  }
  int64_t made() const { return made_; }

 private:
  const Track& track_;
  const int step_;
  const int64_t steps_;
  int64_t made_ = 0;
  std::deque<Turn> turns_;
};

// See train/server_steps.h.
class ServerAgenda final : public Planned {
 public:
  ServerAgenda(const Track& track, const Window& window, const Servers& servers)
      : Planned(track, window), servers_(servers), workers_(static_cast<size_t>(servers.workers)) {}

 private:
  struct Worker {
    bool waits = false;  // for weights
    int64_t clock = 0;   // steps that it has sent gradients of
  };

  void plan(Inbox& inbox) override {
    std::vector<int> computing;
    for (int i = 1; i <= servers_.workers; ++i) {  // not always the same one first
      const int number = (last_ + i) % servers_.workers;
      if (workers_[static_cast<size_t>(number)].waits) continue;
      const int rank = servers_.rank_of(number);
      if (inbox.has_message_of(rank)) {
        inbox.take_message_of(rank);
        last_ = number;
        return take(workers_[static_cast<size_t>(number)], rank);
      }
      computing.push_back(rank);
    }
    await(std::move(computing));
  }

  void take(Worker& worker, int rank) {
    ++worker.clock;
    if (servers_.updates == Servers::Updates::kArrivals) {
      run_step();
      run(When::tell(rank));
      if (++updates_ % servers_.workers == 0) end_step();
      return;
    }
    worker.waits = true;
    answer_waiting();
    if (!std::ranges::all_of(workers_, [&](const Worker& one) { return one.clock > updates_; })) return;
    run_step();
    ++updates_;
    answer_waiting();
    end_step();
  }

  void answer_waiting() {
    for (int number = 0; number < servers_.workers; ++number) {
      Worker& worker = workers_[static_cast<size_t>(number)];
      if (!worker.waits || worker.clock - updates_ > servers_.staleness) continue;
      run(When::tell(servers_.rank_of(number)));
      worker.waits = false;
    }
  }

  const Servers servers_;
  std::vector<Worker> workers_;
  int64_t updates_ = 0;
  int last_ = 0;
};

// See train/stale_steps.cc.
class StaleAgenda final : public Planned {
 public:
  StaleAgenda(const Track& track, const Window& window, const std::vector<int>& neighbours, int64_t staleness)
      : Planned(track, window), staleness_(staleness) {
    for (const int rank : neighbours) neighbours_.push_back({rank});
  }

 private:
  struct Neighbour {
    int rank;
    int64_t version = -1;  // the step (counted from 0) that its weights here are of
  };

  void plan(Inbox& inbox) override {
    if (!updated_) {
      run_step();
      for (const Neighbour& one : neighbours_) begin_message(one.rank);
      updated_ = true;
      return;
    }
    const int64_t step = made();
    for (Neighbour& one : neighbours_) {
      while (one.version < step && inbox.has_message_of(one.rank)) {
        inbox.take_message_of(one.rank);
        ++one.version;
      }
      if (one.version < std::max<int64_t>(0, step - staleness_)) return await({one.rank});
    }
    for (size_t i = 0; i < neighbours_.size(); ++i) run(When::asked(What::kMix));
    end_step();
    updated_ = false;
  }

  const int64_t staleness_;
  std::vector<Neighbour> neighbours_;
  bool updated_ = false;
};

// See train/pair_steps.cc, and for the other kind of ranks.
class AskingAgenda final : public Planned {
 public:
  AskingAgenda(const Track& track, const Window& window, PartnerDraw draw)
      : Planned(track, window), draw_(std::move(draw)) {}

 private:
  void plan(Inbox& inbox) override {
    if (!updated_) {
      updated_ = true;
      return run_step();
    }
    updated_ = false;
    if (asked_ >= 0 && inbox.has_message_of(asked_)) {
      inbox.take_message_of(asked_);
      run(When::asked(What::kSettle));
      asked_ = -1;
    }
    if (asked_ < 0) {
      asked_ = draw_.at(made());
      run(When::asked(What::kOffer));
      begin_message(asked_);
    }
    end_step();
  }

  const PartnerDraw draw_;
  int asked_ = -1;  // the partner whose answer is to come
  bool updated_ = false;
};

class AnsweringAgenda final : public Planned {
 public:
  AnsweringAgenda(const Track& track, const Window& window, std::vector<int> partners)
      : Planned(track, window), partners_(std::move(partners)) {}

 private:
  void plan(Inbox& inbox) override {
    if (!updated_) {
      updated_ = true;
      return run_step();
    }
    updated_ = false;
    for (const int partner : partners_) {
      if (!inbox.has_message_of(partner)) continue;
      inbox.take_message_of(partner);
      run(When::asked(What::kAnswer));
      begin_message(partner);
    }
    end_step();
  }

  const std::vector<int> partners_;
  bool updated_ = false;
};

}  // namespace

bool goes_by_arrivals(const Track& track) {
  return std::ranges::any_of(track.lists,
                             [](const TrackList& list) { return list.when.kind == When::Kind::kArrival; });
}

std::unique_ptr<Agenda> own_pace_agenda(const Track& track, const std::optional<Plan>& plan, int rank,
                                        const Window& window) {
  if (!plan)
    throw_error(
        "the programs have lists that are run as messages come, and the plan that says in which order is not "
        "known; give it to the simulation (SimOptions::plan)");
  const Agreement& how = plan->agreement;
  if (const Servers* servers = how.servers()) {
    if (servers->serves(rank)) return std::make_unique<ServerAgenda>(track, window, *servers);
    Window endless = window;  // the server ends the run
    endless.steps = std::numeric_limits<int32_t>::max();
    return std::make_unique<LockstepAgenda>(track, endless);
  }
  TRIREME_CHECK((how.kind() == Agreement::Kind::kMixed && !how.is_in_step()));
  const int ranks = plan->mesh.ranks();
  const GossipGraph graph = gossip_graph(how.settings().word("graph"));
  if (how.pace() != Agreement::Pace::kOwn)
    return std::make_unique<StaleAgenda>(track, window, neighbours(graph, ranks, rank), how.staleness());
  if (asks(graph, ranks, rank))
    return std::make_unique<AskingAgenda>(
        track, window, PartnerDraw(graph, ranks, rank, static_cast<uint64_t>(how.settings().whole("seed"))));
  return std::make_unique<AnsweringAgenda>(track, window, partners(graph, ranks, rank));
}

}  // namespace trireme::sim

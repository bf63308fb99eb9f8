// See arrivals.h. A policy says what it does at once, and is asked again when that is done.
#include "trireme/sim/arrivals.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/exchange/agreement_record.h"

namespace trireme::sim {
namespace {

class PolicyAgenda final : public Agenda, private ListDriver {
 public:
  PolicyAgenda(const Track& track, const Window& window, const PolicyPlace& place)
      : track_(track),
        step_(track.list(When::step())),
        steps_(window.before + window.steps),
        policy_(record_of(place.agreement).policy(place, *this)) {}

  AgendaItem next(Inbox& inbox) override {
    inbox_ = &inbox;
    while (items_.empty()) started_ ? hear() : start();
    const AgendaItem item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  void start() {
    policy_->start(made_);
    started_ = true;
  }
  void hear() {
    if (!policy_->hear(made_)) return;
    items_.push_back({AgendaItem::Kind::kStepEnd});
    if (++made_ == steps_) items_.push_back({AgendaItem::Kind::kEnd});
    started_ = false;
  }

  std::optional<float> take(int rank) override {
    if (!inbox_->has_message_of(rank)) return std::nullopt;
    inbox_->take_message_of(rank);
    return 0;
  }
  Arrival take_first_of(const std::vector<int>& ranks) override {
    for (const int rank : ranks) {
      if (take(rank)) return {rank};
    }
    items_.push_back({AgendaItem::Kind::kAwait, -1, ranks});
    return {};
  }
  bool expect(int, int64_t) override { return true; }
  void begin_telling(int rank, int64_t) override {
    items_.push_back({AgendaItem::Kind::kBegin, track_.list(When::tell(rank))});
  }
  bool tell(int rank) override {
    run_list(track_.list(When::tell(rank)));
    return true;
  }
  void run(When::What what, int64_t) override { run_list(track_.list(When::asked(what))); }
  void update(int64_t, int64_t, double) override { run_list(step_); }
  void run_list(int list) { items_.push_back({AgendaItem::Kind::kList, list}); }

  const Track& track_;
  const int step_;
  const int64_t steps_;
  int64_t made_ = 0;
  bool started_ = false;
  Inbox* inbox_ = nullptr;
  std::deque<AgendaItem> items_;
  const std::unique_ptr<ArrivalPolicy> policy_;
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
  if (trireme::goes_by_arrivals(plan->agreement, rank))
    return std::make_unique<PolicyAgenda>(track, window,
                                          PolicyPlace{plan->agreement, plan->mesh.ranks(), rank});
  TRIREME_CHECK(step_half(plan->agreement, rank) == StepHalf::kGradients);
  Window endless = window;  // the server ends the run
  endless.steps = std::numeric_limits<int32_t>::max();
  return std::make_unique<LockstepAgenda>(track, endless);
}

}  // namespace trireme::sim

// See agreeing.h.
#include "trireme/train/parity/agreeing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>

#include "trireme/exchange/gossip.h"
#include "trireme/optim/update.h"
#include "trireme/train/parity/agreed.h"
#include "trireme/train/parity/plan_ranks.h"
#include "trireme/train/parity/rows_alone.h"
#include "trireme/train/rank_steps.h"

namespace trireme::parity {
namespace {

constexpr double kPartOfAByte = 0.5;  // shares of ranks are no whole numbers

// Of one replica: what its ranks have of the states, together.
struct ReplicaStep {
  Gathering before, left, after;
  StepResult result;
};

// What all ranks together have sent. A sum that goes on while steps are made is sent some time between its
// begin and its end.
struct SentBytes {
  double counted = 0, begun = 0, awaited = 0;
};

struct AgreeingRun {
  explicit AgreeingRun(size_t replicas)
      : through(replicas), met(replicas), parted(replicas), rows(replicas) {}

  std::vector<std::vector<ReplicaStep>> steps;  // by step and replica
  std::vector<Gathering> through, met, parted;  // by replica: when nobody hears of others any more, and then
  RowsAlone rows;
  std::vector<ArrivalOrder> orders;  // by replica; empty in lockstep
  SentBytes bytes;
};

double bytes_awaited(const Program& program, ActionList list) {
  std::erase_if(list.actions, [](const Action& action) { return action.kind == Action::Kind::kReduce; });
  for (Action& action : list.actions) {
    if (action.kind == Action::Kind::kAwait) action.kind = Action::Kind::kReduce;
  }
  return bytes_sent(program, list);
}

void promise(const Program& program, const Plan& plan, int64_t steps, SentBytes& bytes) {
  Shares shares(plan.agreement, static_cast<size_t>(replicas_of(plan.mesh)));
  const auto replica = static_cast<size_t>(replica_of(plan.mesh, program.rank));
  for (int64_t step = 1; step <= steps; ++step) {
    const auto add = [&](const ActionList& list) {
      const double begun = bytes_sent(program, list), awaited = bytes_awaited(program, list);
      bytes.begun += begun;
      bytes.awaited += awaited;
    };
    if (shares.trains(replica)) add(program.step_list(step));
    shares.end_step(step);
    for (const ActionList& list : program.lists) {
      if (list.when.is_due_after(step)) add(list);
    }
  }
}

// At their own pace. Neighbours get what a rank has in every step, and partners an answer, or a question for
// each answer; and in the end who sends first says so.
void promise_messages(const Program& program, const Plan& plan, int64_t steps, const ArrivalOrder& order,
                      SentBytes& bytes) {
  int64_t taken = 0, messages = 0;
  for (const auto& [step, arrivals] : order) taken += std::ssize(arrivals);
  double of_one = 0;
  int64_t others = 0;
  for (const ActionList& list : program.lists) {
    if (list.when.kind != When::Kind::kAsked || list.when.what != When::What::kTell) continue;
    of_one = bytes_sent(program, list);
    ++others;
  }
  if (plan.agreement.way() == ExchangeKind::Of::kNeighbours)
    messages = others * (steps + 1);
  else if (asks(gossip_graph(plan.agreement.settings().word("graph")), plan.mesh.ranks(), program.rank))
    messages = taken + others;
  else
    messages = taken - others;
  bytes.begun += of_one * static_cast<double>(messages);
  bytes.awaited += of_one * static_cast<double>(messages);
}

// `replay`: the order in which each rank takes messages, where they go at their own pace and it is known.
AgreeingRun run_agreeing(const Reference& reference, const Plan& plan, const std::vector<Program>& programs,
                         const std::vector<ArrivalOrder>& replay) {
  const Training& training = reference.training();
  const std::vector<std::string> lasting = states_of(reference.program(), StateGroup::kLasting),
                                 left = states_of(reference.program(), StateGroup::kLeft);
  const auto replicas = static_cast<size_t>(replicas_of(plan.mesh));
  const bool in_step = plan.agreement.is_in_step(), jitters = !in_step && replay.empty();
  AgreeingRun run(replicas);
  run.steps.assign(static_cast<size_t>(reference.steps()), std::vector<ReplicaStep>(replicas));
  run.orders.resize(in_step ? 0 : replicas);
  std::mutex mutex;
  const auto one_rank = [&](PlanRank& own) {
    Trainer& trainer = own.trainer;
    const auto replica = static_cast<size_t>(replica_of(plan.mesh, own.rank()));
    RankSteps steps(own.options, trainer, 0, reference.steps(),
                    replay.empty() ? std::nullopt : std::optional(replay[replica]));
    const auto note = [&](Gathering& gathering, const std::vector<std::string>& names) {
      const std::lock_guard lock(mutex);
      gathering.add(trainer, names, plan.mesh, own.rank());
    };
    {
      const std::lock_guard lock(mutex);
      run.rows.note(replica, trainer.own_rows());
    }
    for (int64_t step = 0; step < reference.steps(); ++step) {
      ReplicaStep& record = run.steps[static_cast<size_t>(step)][replica];
      // So that ranks come apart, and answers come while there are steps to make.
      if (jitters) std::this_thread::sleep_for(std::chrono::milliseconds(2 * ((own.rank() + step) % 3)));
      Batch batch = training.batches[static_cast<size_t>(step)];
      note(record.before, lasting);
      steps.watch({.gradients = [&] { note(record.left, left); }});
      const StepResult result = steps.step(batch, step, training.rates[static_cast<size_t>(step)]);
      note(record.after, lasting);
      const std::lock_guard lock(mutex);
      record.result = result;
    }
    if (steps.arrivals()) steps.arrivals()->finish(ArrivalDriver::Why::kThrough);
    note(run.through[replica], lasting);
    const auto sent = static_cast<double>(own.communicator.take_bytes());
    {
      const Trainer::Meeting meeting(trainer);
      note(run.met[replica], lasting);
    }
    note(run.parted[replica], lasting);
    const std::lock_guard lock(mutex);
    if (!in_step) run.orders[replica] = steps.arrivals()->take_order();
    if (!own.counts_bytes) return;
    run.bytes.counted += sent;
    if (in_step)
      promise(trainer.program(), plan, reference.steps(), run.bytes);
    else
      promise_messages(trainer.program(), plan, reference.steps(), run.orders[replica], run.bytes);
  };
  run_plan_ranks(reference, plan, programs, rings(plan.mesh),
                 jitters ? Messages::kJittering : Messages::kAtOnce, one_rank);
  return run;
}

class AgreeingComparison {
 public:
  AgreeingComparison(Reference& reference, const Plan& plan, const AgreeingRun& run)
      : reference_(reference),
        how_(plan.agreement),
        run_(run),
        replicas_(run.met.size()),
        several_ranks_(static_cast<size_t>(plan.mesh.ranks()) > replicas_),
        left_(left_alone(reference)),
        lasting_(states_of(reference.program(), StateGroup::kLasting)),
        batches_(reference.training().batches),
        shares_(how_, replicas_),
        judge_(reference.program()) {
    judge_.raise(Verdict::kRounding);
    const States start = run.steps[0][0].before.whole();
    for (const std::string& name : lasting_)
      states_.emplace(name,
                      AgreedState(how_, run.orders, role_of(name), Estimate(start.at(name)), replicas_));
  }

  Result go() {
    for (int64_t step = 0; step < reference_.steps() && !judge_.is_bug(); ++step) compare_step(step);
    if (by_order_ && !judge_.is_bug()) compare_pairs();
    if (!judge_.is_bug()) compare_meeting();
    if (!judge_.is_bug()) compare_bytes();
    return std::move(judge_.result);
  }

 private:
  Role role_of(const std::string& name) const { return reference_.program().find_state(name)->role; }

  // What each replica's own step has made of what it had, and how far rounding may have moved it.
  struct Alone {
    std::vector<States> before, updated, bounds;

    OfRanks had(const std::string& name) const {
      OfRanks result;
      for (const States& states : before) result.emplace_back(states.at(name));
      return result;
    }
    OfRanks made(const std::string& name) const {
      OfRanks result;
      for (size_t r = 0; r < updated.size(); ++r)
        result.emplace_back(updated[r].at(name), bounds[r].at(name));
      return result;
    }
  };

  void compare_step(int64_t step) {
    const std::vector<ReplicaStep>& found = run_.steps[static_cast<size_t>(step)];
    Alone alone{.before = std::vector<States>(replicas_),
                .updated = std::vector<States>(replicas_),
                .bounds = std::vector<States>(replicas_)};
    auto& [started, updated, bounds] = alone;
    std::vector<double> counts;
    for (size_t r = 0; r < replicas_ && !judge_.is_bug(); ++r) {
      const std::string when = fmt::format("step {}, {}", step + 1, replica_name(r));
      for (const Gathering* one : {&found[r].before, &found[r].left, &found[r].after})
        check_alike(when, *one);
      started[r] = found[r].before.whole();
      if (!shares_.trains(r)) {
        updated[r] = bounds[r] = started[r];
        for (auto& [name, values] : bounds[r]) std::ranges::fill(values, 0);
        counts.push_back(0);
        continue;
      }
      const States left = found[r].left.whole();
      const Batch& batch = batches_[static_cast<size_t>(step)];
      reference_.replace(step, step, reference_.training().rates[static_cast<size_t>(step)], started[r],
                         run_.rows.batch_of(r, batch, others_for(reference_)));
      if (how_.way() == ExchangeKind::Of::kNeighbours && !how_.is_in_step() &&
          found[r].result.staleness_max !=
              stalest(how_, run_.orders[r], static_cast<int>(replicas_), static_cast<int>(r), step + 1))
        judge_.bug(fmt::format("{}: it does not say how old the weights were that it has mixed", when));
      if (r == 0)
        judge_.result.losses.push_back({found[r].result.loss, reference_.record()[step].result.loss});
      judge_.compare(when + ", forward and backward", left_, reference_.record()[step].left, left,
                     [&](Samples samples) { return reference_.left_bounds(step, samples); });
      updated[r] = reference_.update(step, left);
      bounds[r] = reference_.update_bounds(step, left, found[r].left.reach(), updated[r], Samples::kFew);
      counts.push_back(found[r].result.skipped ? 0
                                               : static_cast<double>(left.at(std::string(kCountState))[0]));
    }
    if (judge_.is_bug()) return;
    if (by_order_) {
      alone_.push_back(std::move(alone));
      return;
    }
    shares_.count(counts);
    Written expected(replicas_);
    for (const std::string& name : lasting_)
      expected.add(name, states_.at(name).after(step + 1, alone.had(name), alone.made(name), shares_));
    for (size_t r = 0; r < replicas_; ++r)
      compare_agreed(fmt::format("step {}, {}", step + 1, replica_name(r)), expected, r,
                     found[r].after.whole());
    shares_.end_step(step + 1);
  }

  // Pairs at their own pace: what one has in a step may come of what others have in any.
  void compare_pairs() {
    std::vector<Written> expected(run_.steps.size() + 1, Written(replicas_));
    std::vector<std::vector<States>> after(alone_.size());
    for (size_t step = 0; step < after.size(); ++step) {
      for (const ReplicaStep& one : run_.steps[step]) after[step].push_back(one.after.whole());
    }
    for (const std::string& name : lasting_) {
      std::vector<OfRanks> own, found(after.size());
      for (size_t step = 0; step < after.size(); ++step) {
        own.push_back(alone_[step].made(name));
        for (const States& states : after[step]) found[step].emplace_back(states.at(name));
      }
      const std::vector<OfRanks> all = paired_by_order(how_, run_.orders, role_of(name), own, found);
      for (size_t step = 0; step < all.size(); ++step) expected[step].add(name, all[step]);
    }
    for (size_t r = 0; r < replicas_; ++r) {
      for (size_t step = 0; step < alone_.size(); ++step)
        compare_agreed(fmt::format("step {}, {}", step + 1, replica_name(r)), expected[step], r,
                       after[step][r]);
      compare_agreed(fmt::format("behind the last step, {}", replica_name(r)), expected.back(), r,
                     run_.through[r].whole());
    }
  }

  // What all replicas should have.
  struct Written {
    std::vector<States> values;
    std::vector<Bounds> bounds;

    explicit Written(size_t replicas) : values(replicas), bounds(replicas) {}
    void add(const std::string& name, const OfRanks& of) {
      for (size_t r = 0; r < values.size(); ++r) {
        values[r][name].assign(of[r].values.begin(), of[r].values.end());
        bounds[r][name].assign(of[r].bounds.begin(), of[r].bounds.end());
      }
    }
  };
  void compare_agreed(const std::string& when, const Written& expected, size_t r, const States& found) {
    judge_.compare(when + ", update and agreement", lasting_, expected.values[r], found,
                   [&](Samples) { return expected.bounds[r]; });
  }

  // One model: the mean of all, moments alike, weights and statistics by their shares.
  void compare_meeting() {
    std::vector<States> last, met, parted;
    for (size_t r = 0; r < replicas_; ++r) {
      for (const Gathering* one : {&run_.met[r], &run_.parted[r]}) check_alike("the meeting", *one);
      last.push_back(run_.through[r].whole());
      met.push_back(run_.met[r].whole());
      parted.push_back(run_.parted[r].whole());
    }
    const std::vector<double> alike(replicas_, 1.0 / static_cast<double>(replicas_));
    States expected;
    Bounds off;
    for (const std::string& name : lasting_) {
      OfRanks own;
      for (size_t r = 0; r < replicas_; ++r) own.emplace_back(last[r].at(name));
      const Estimate mean =
          role_of(name) == Role::kOptimizer ? mean_of(own, alike) : states_.at(name).met(own, shares_);
      expected[name].assign(mean.values.begin(), mean.values.end());
      off[name].assign(mean.bounds.begin(), mean.bounds.end());
    }
    judge_.compare("the meeting", lasting_, expected, met[0], [&](Samples) { return off; });
    for (size_t r = 0; r < replicas_; ++r) {
      for (const std::string& name : lasting_) {
        if (!same(met[r].at(name), met[0].at(name)))
          judge_.bug(
              fmt::format("the meeting: {} of {} is not that of {}", name, replica_name(r), replica_name(0)));
        if (!same(parted[r].at(name), last[r].at(name)))
          judge_.bug(fmt::format("{} of {} is not what it was before the meeting", name, replica_name(r)));
      }
    }
  }

  void check_alike(const std::string& when, const Gathering& gathering) {
    if (gathering.disagreement().empty()) return;
    judge_.bug(fmt::format("{}: ranks of a replica that should have the same have not: {}", when,
                           gathering.disagreement()));
  }

  // A replica of one rank is called by it.
  std::string replica_name(size_t number) const {
    return fmt::format("{} {}", several_ranks_ ? "replica" : "rank", number);
  }

  void compare_bytes() {
    const auto& [counted, begun, awaited] = run_.bytes;
    if (counted > awaited - kPartOfAByte && counted < begun + kPartOfAByte) return;
    judge_.bug(fmt::format("ranks have sent {} bytes, and their programs promise {}", counted, begun));
  }

  Reference& reference_;
  const Agreement& how_;
  const AgreeingRun& run_;
  const size_t replicas_;
  const bool several_ranks_;  // in a replica
  std::vector<std::string> left_, lasting_;
  const std::vector<Batch> batches_;  // the reference is given others
  const bool by_order_ = how_.way() == ExchangeKind::Of::kPairs && !how_.is_in_step();
  std::vector<Alone> alone_;  // by step
  Shares shares_;
  std::map<std::string, AgreedState> states_;
  Judge judge_;
};

}  // namespace

Result verify_agreeing(const Training& training, const Plan& plan, Width width,
                       const std::vector<Program>& programs) {
  Reference reference(with_own_groups(training, plan), width);
  const AgreeingRun run = run_agreeing(reference, plan, programs, {});
  std::string problem;
  if (!run.orders.empty()) {  // before the reference is given other batches
    const AgreeingRun again = run_agreeing(reference, plan, programs, run.orders);
    for (size_t r = 0; r < run.through.size(); ++r) {
      const States first = run.through[r].whole(), second = again.through[r].whole();
      for (const auto& [name, values] : first) {
        if (!same(values, second.at(name)))
          problem = fmt::format("a replay of the order of arrivals has other bits: {} of rank {}", name, r);
      }
    }
  }
  Result result = AgreeingComparison(reference, plan, run).go();
  if (problem.empty() || result.verdict == Verdict::kBug) return result;
  result.verdict = Verdict::kBug;
  result.reason = problem;
  return result;
}

}  // namespace trireme::parity

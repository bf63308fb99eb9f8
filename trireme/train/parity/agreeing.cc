// See agreeing.h.
#include "trireme/train/parity/agreeing.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/comm/context.h"
#include "trireme/optim/update.h"
#include "trireme/passes/pins.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/parity/agreed.h"

namespace trireme::parity {
namespace {

constexpr double kAgreeingTimeoutSeconds = 300;
constexpr int32_t kIgnoredTarget = -1;
constexpr double kPartOfAByte = 0.5;  // shares of ranks are no whole numbers

// Of one replica: what its ranks have of the states, together.
struct ReplicaStep {
  Gathering before, left, after;
  StepResult result;
};

// What all ranks together have sent. A sum that goes on while steps are made is sent some time between its
// begin and its end; what travels in one collective fills lines of 64 bytes.
struct SentBytes {
  double counted = 0, begun = 0, awaited = 0, filling = 0;
};

struct AgreeingRun {
  std::vector<std::vector<ReplicaStep>> steps;  // by step and replica
  std::vector<Gathering> met, parted;           // by replica
  // Of a whole batch: the rows of each replica, by microbatch.
  std::vector<std::vector<std::set<int64_t>>> rows;
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
  const int axis = plan.mesh.axis(kReplicaAxis);
  Shares shares(plan.agreement, static_cast<size_t>(plan.mesh.axes()[axis].size));
  const auto replica = static_cast<size_t>(plan.mesh.coordinate(program.rank, axis));
  for (int64_t step = 1; step <= steps; ++step) {
    const auto add = [&](const ActionList& list) {
      const double begun = bytes_sent(program, list), awaited = bytes_awaited(program, list);
      bytes.begun += begun;
      bytes.awaited += awaited;
      const bool sums = std::ranges::any_of(
          list.actions, [](const Action& action) { return action.kind == Action::Kind::kRun; });
      if (sums && begun > 0) bytes.filling += 2.0 * 64 * static_cast<double>(program.states.size());
    };
    if (shares.trains(replica)) add(program.step_list(step));
    shares.end_step(step);
    for (const ActionList& list : program.lists) {
      if (list.when.is_due_after(step)) add(list);
    }
  }
}

AgreeingRun run_agreeing(const Reference& reference, const Plan& plan, std::vector<Program> programs) {
  const Training& training = reference.training();
  const std::vector<std::string> lasting = states_of(reference.program(), StateGroup::kLasting),
                                 left = states_of(reference.program(), StateGroup::kLeft);
  const int axis = plan.mesh.axis(kReplicaAxis);
  const auto replicas = static_cast<size_t>(plan.mesh.axes()[axis].size);
  AgreeingRun run;
  run.steps.assign(static_cast<size_t>(reference.steps()), std::vector<ReplicaStep>(replicas));
  run.met.resize(replicas);
  run.parted.resize(replicas);
  run.rows.resize(replicas);
  std::mutex mutex;
  const auto one_rank = [&](comm::Context& context) {
    const auto rank = static_cast<size_t>(context.rank());
    const auto replica = static_cast<size_t>(plan.mesh.coordinate(context.rank(), axis));
    // Rings send what the closed forms say for any number of ranks and size.
    MeshCommunicator communicator(plan.mesh, context, comm::Algorithm::ring);
    const std::unique_ptr<Device> device = make_device({.kind = training.train.device});
    Trainer trainer(in_width(std::move(programs[rank]), reference.width(), *device), training.train,
                    training.shape, *device, {plan, context.rank(), &communicator});
    trainer.initialise(static_cast<uint64_t>(training.train.seed));
    const auto note = [&](Gathering& gathering, const std::vector<std::string>& names) {
      const std::lock_guard lock(mutex);
      gathering.add(trainer, names, plan.mesh, context.rank());
    };
    {
      const std::lock_guard lock(mutex);
      const std::vector<Part> own = trainer.own_rows();
      run.rows[replica].resize(std::max(run.rows[replica].size(), own.size()));
      for (size_t m = 0; m < own.size(); ++m) {
        for (int64_t row = own[m].begin; row < own[m].end(); ++row) run.rows[replica][m].insert(row);
      }
    }
    communicator.take_bytes();
    double sent = 0;
    for (int64_t step = 0; step < reference.steps(); ++step) {
      ReplicaStep& record = run.steps[static_cast<size_t>(step)][replica];
      Batch batch = training.batches[static_cast<size_t>(step)];
      note(record.before, lasting);
      trainer.forward_backward(batch, step);
      note(record.left, left);
      const StepResult result = trainer.update(step, training.rates[static_cast<size_t>(step)]);
      note(record.after, lasting);
      sent += static_cast<double>(communicator.take_bytes());
      const std::lock_guard lock(mutex);
      record.result = result;
    }
    {
      const Trainer::Meeting meeting(trainer);
      note(run.met[replica], lasting);
    }
    note(run.parted[replica], lasting);
    const std::lock_guard lock(mutex);
    run.bytes.counted += sent;
    promise(trainer.program(), plan, reference.steps(), run.bytes);
  };
  comm::run_rank_threads(plan.mesh.ranks(), one_rank, kAgreeingTimeoutSeconds);
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
        left_(states_of(reference.program(), StateGroup::kLeft)),
        lasting_(states_of(reference.program(), StateGroup::kLasting)),
        batches_(reference.training().batches),
        shares_(how_, replicas_),
        judge_(reference.program()) {
    judge_.raise(Verdict::kRounding);
    has_buffers_ = std::ranges::any_of(
        lasting_, [&](const std::string& name) { return role_of(name) == Role::kBuffer; });
    // Where other rows are dropped out, those that stand for them have other statistics.
    if (has_buffers_ && reference.training().model.options.dropout > 0)
      std::erase_if(left_, [&](const std::string& name) { return role_of(name) == Role::kPending; });
    const States start = run.steps[0][0].before.whole();
    for (const std::string& name : lasting_)
      states_.emplace(name, AgreedState(how_, role_of(name), Estimate(start.at(name)), replicas_));
  }

  Result go() {
    for (int64_t step = 0; step < reference_.steps() && !judge_.is_bug(); ++step) compare_step(step);
    if (!judge_.is_bug()) compare_meeting();
    if (!judge_.is_bug()) compare_bytes();
    return std::move(judge_.result);
  }

 private:
  Role role_of(const std::string& name) const { return reference_.program().find_state(name)->role; }

  // The batch in which the targets of one replica's rows alone count. Batch norms of other groups than its
  // own see its rows too, so that their statistics are those of its own.
  Batch batch_of(int64_t step, size_t replica) const {
    Batch batch = batches_[static_cast<size_t>(step)];
    HostTensor& targets = batch.tensors.back().second;
    const std::span<int32_t> all = targets.values<int32_t>();
    const int64_t row = targets.shape.elements() / targets.shape[0];
    std::vector<bool> is_own(static_cast<size_t>(targets.shape[0]));
    for (const std::set<int64_t>& rows : run_.rows[replica]) {
      for (const int64_t own : rows) is_own[static_cast<size_t>(own)] = true;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (!is_own[i / static_cast<size_t>(row)]) all[i] = kIgnoredTarget;
    }
    if (has_buffers_) spread_rows(batch, replica);
    return batch;
  }

  void spread_rows(Batch& batch, size_t replica) const {
    HostTensor& input = batch.tensors.front().second;
    const size_t row = input.bytes.size() / static_cast<size_t>(input.shape[0]);
    const auto at = [&](int64_t number) { return input.bytes.begin() + number * static_cast<int64_t>(row); };
    for (size_t m = 0; m < run_.rows[replica].size(); ++m) {
      const std::set<int64_t>& own = run_.rows[replica][m];
      for (size_t other = 0; other < replicas_; ++other) {
        if (other == replica) continue;
        TRIREME_CHECK(run_.rows[other][m].size() == own.size());
        auto from = own.begin();
        for (const int64_t to : run_.rows[other][m]) std::copy_n(at(*from++), row, at(to));
      }
    }
  }

  void compare_step(int64_t step) {
    const std::vector<ReplicaStep>& found = run_.steps[static_cast<size_t>(step)];
    std::vector<States> started(replicas_), updated(replicas_), bounds(replicas_);
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
      reference_.restart(step, started[r], batch_of(step, r));
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
    shares_.count(counts);
    std::vector<States> expected(replicas_);
    std::vector<Bounds> off(replicas_);
    for (const std::string& name : lasting_) {
      OfRanks before, own;
      for (size_t r = 0; r < replicas_; ++r) {
        before.emplace_back(started[r].at(name));
        own.emplace_back(updated[r].at(name), bounds[r].at(name));
      }
      const OfRanks after = states_.at(name).after(step + 1, before, own, shares_);
      for (size_t r = 0; r < replicas_; ++r) {
        expected[r][name].assign(after[r].values.begin(), after[r].values.end());
        off[r][name].assign(after[r].bounds.begin(), after[r].bounds.end());
      }
    }
    for (size_t r = 0; r < replicas_; ++r)
      judge_.compare(fmt::format("step {}, {}, update and agreement", step + 1, replica_name(r)), lasting_,
                     expected[r], found[r].after.whole(), [&](Samples) { return off[r]; });
    shares_.end_step(step + 1);
  }

  // One model: the mean of all, moments alike, weights and statistics by their shares.
  void compare_meeting() {
    std::vector<States> last, met, parted;
    for (size_t r = 0; r < replicas_; ++r) {
      for (const Gathering* one : {&run_.met[r], &run_.parted[r]}) check_alike("the meeting", *one);
      last.push_back(run_.steps.back()[r].after.whole());
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
    const auto& [counted, begun, awaited, filling] = run_.bytes;
    if (counted > awaited - kPartOfAByte && counted < begun + filling + kPartOfAByte) return;
    judge_.bug(fmt::format("ranks have sent {} bytes, and their programs promise {}", counted, begun));
  }

  Reference& reference_;
  const Agreement& how_;
  const AgreeingRun& run_;
  const size_t replicas_;
  const bool several_ranks_;  // in a replica
  std::vector<std::string> left_, lasting_;
  const std::vector<Batch> batches_;  // the reference is given others
  bool has_buffers_ = false;
  Shares shares_;
  std::map<std::string, AgreedState> states_;
  Judge judge_;
};

}  // namespace

Result verify_agreeing(const Training& training, const Plan& plan, Width width,
                       std::vector<Program> programs) {
  Training alone = training;
  if (alone.model.options.batch_norm_groups == 1) alone.model.options.batch_norm_groups = batch_parts(plan);
  Reference reference(std::move(alone), width);
  const AgreeingRun run = run_agreeing(reference, plan, std::move(programs));
  return AgreeingComparison(reference, plan, run).go();
}

}  // namespace trireme::parity

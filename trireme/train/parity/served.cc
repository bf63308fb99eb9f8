// See served.h.
#include "trireme/train/parity/served.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/optim/update.h"
#include "trireme/train/parity/agreed.h"
#include "trireme/train/parity/plan_ranks.h"
#include "trireme/train/parity/rows_alone.h"
#include "trireme/train/rank_steps.h"

namespace trireme::parity {
namespace {

struct WorkerStep {
  States given, left;
};
struct ServerUpdate {
  States before, left, after;
  StepResult result;
};

struct ServedRun {
  std::vector<std::vector<WorkerStep>> workers;    // the last step is not made any more
  std::vector<std::vector<ServerUpdate>> servers;  // of each, one an update
  std::vector<ArrivalOrder> orders;                // of each server
  std::vector<std::vector<double>> stalest;        // of each server, as its steps say
  States met;                                      // weights of all servers, where there are several
  std::vector<std::optional<double>> sent;         // bytes, by rank; none where they are not counted
  RowsAlone rows;

  explicit ServedRun(const Servers& of)
      : workers(static_cast<size_t>(of.workers)),
        servers(static_cast<size_t>(of.count)),
        orders(static_cast<size_t>(of.count)),
        stalest(static_cast<size_t>(of.count)),
        sent(static_cast<size_t>(of.count + of.workers)),
        rows(static_cast<size_t>(of.workers)) {}
};

// Those of the names that are states of the rank.
States read_own(Trainer& trainer, std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& name) { return !trainer.program().find_state(name); });
  return read_states(trainer, names);
}

// What a server's updates renew: the first of several has the weights of the others too, but for evaluations.
std::vector<std::string> renewed_by(const Program& program) {
  std::vector<std::string> names;
  for (const Segment& segment : program.segments) {
    for (const Update& update : segment.graph.updates) {
      const Value& state = segment.graph.values[static_cast<size_t>(update.state)];
      if (segment.kind == SegmentKind::kUpdate && is_lasting(state.role)) names.push_back(state.name);
    }
  }
  return names;
}

// One of the ranks; each writes what is its own.
class ServedRank {
 public:
  ServedRank(const Reference& reference, PlanRank& own, ServedRun& run)
      : training_(reference.training()),
        servers_(*own.options.plan.agreement.servers()),
        own_(own),
        trainer_(own.trainer),
        number_(static_cast<size_t>(own.rank())),
        lasting_(states_of(reference.program(), StateGroup::kLasting)),
        left_(states_of(reference.program(), StateGroup::kLeft)),
        run_(run) {}

  // `replay`: the order in which it takes messages, where that is known.
  void serve(std::optional<ArrivalOrder> replay) {
    std::vector<int> members(static_cast<size_t>(servers_.count));
    std::iota(members.begin(), members.end(), 0);
    if (servers_.count > 1) own_.communicator.add_group(std::string(kServerAxis), members);
    const auto steps = std::ssize(training_.batches);
    RankSteps server(own_.options, trainer_, 0, steps, std::move(replay));
    std::vector<ServerUpdate>& updates = run_.servers[number_];
    const std::vector<std::string> renewed = renewed_by(trainer_.program());
    server.watch({.gradients =
                      [&] {
                        updates.push_back(
                            {.before = read_own(trainer_, renewed), .left = read_own(trainer_, left_)});
                      },
                  .update =
                      [&](const StepResult& result) {
                        updates.back().after = read_own(trainer_, renewed);
                        updates.back().result = result;
                      }});
    Batch none;
    for (int64_t step = 0; step < steps; ++step) {
      const StepResult result = server.step(none, step, training_.rates[static_cast<size_t>(step)]);
      run_.stalest[number_].push_back(*result.staleness_max);
    }
    trainer_.runner().run(When::asked(When::What::kMeet));
    if (number_ == kLeadingServer && servers_.count > 1) run_.met = read_own(trainer_, lasting_);
    server.arrivals()->finish(ArrivalDriver::Why::kThrough);
    run_.orders[number_] = server.arrivals()->take_order();
  }

  void work() {
    std::vector<WorkerStep>& steps = run_.workers[number_ - static_cast<size_t>(servers_.count)];
    for (auto over = StepResult::Over::kNo; over == StepResult::Over::kNo;) {
      Batch batch = training_.batches[steps.size() % training_.batches.size()];
      const auto step = std::ssize(steps);
      WorkerStep& now = steps.emplace_back();
      now.given = read_own(trainer_, lasting_);
      trainer_.forward_backward(batch, step);
      now.left = read_own(trainer_, left_);
      over = trainer_.update(step, /*rate=*/0).over;
    }
    steps.push_back({.given = read_own(trainer_, lasting_)});
  }

 private:
  const Training& training_;
  const Servers servers_;
  PlanRank& own_;
  Trainer& trainer_;
  const size_t number_;
  const std::vector<std::string> lasting_, left_;
  ServedRun& run_;
};

ServedRun run_served(const Reference& reference, const Plan& plan, const std::vector<Program>& programs,
                     const std::vector<ArrivalOrder>& replay) {
  const Servers servers = *plan.agreement.servers();
  ServedRun run(servers);
  std::mutex mutex;
  const auto one_rank = [&](PlanRank& own) {
    const auto rank = static_cast<size_t>(own.rank());
    ServedRank one(reference, own, run);
    if (servers.serves(own.rank())) {
      one.serve(replay.empty() ? std::nullopt : std::optional(replay[rank]));
    } else {
      {
        const std::lock_guard lock(mutex);
        run.rows.note(rank - static_cast<size_t>(servers.count), own.trainer.own_rows());
      }
      one.work();
    }
    if (own.counts_bytes) run.sent[rank] = static_cast<double>(own.communicator.take_bytes());
  };
  run_plan_ranks(reference, plan, programs, rings(plan.mesh),
                 replay.empty() ? Messages::kJittering : Messages::kAtOnce, one_rank);
  return run;
}

// What the order of arrivals at a server says.
struct WrittenServer {
  struct Update {
    std::vector<std::pair<size_t, size_t>> of;  // whose gradients: worker and step of it
    double rate;
  };
  std::vector<Update> updates;
  std::vector<std::vector<size_t>> given;  // by worker and step: behind how many updates its weights are
  std::vector<double> stalest;             // by step: by how many updates some gradient's weights were behind
};

class OrderReader {
 public:
  OrderReader(const Servers& servers, const std::vector<double>& rates, const ArrivalOrder& order)
      : servers_(servers), rates_(rates), order_(order), sent_(static_cast<size_t>(servers.workers)) {
    written_.given.assign(sent_.size(), {0});
  }

  WrittenServer read() {
    const auto steps = std::ssize(rates_);
    for (int64_t step = 1; step <= steps; ++step) {
      written_.stalest.push_back(0);
      for (const int rank : order_.at(step)) {
        const auto worker = static_cast<size_t>(rank - servers_.rank_of(0));
        const size_t now = by_clocks() ? sent_[worker] : written_.updates.size();
        written_.stalest.back() =
            std::max(written_.stalest.back(), static_cast<double>(now - written_.given[worker].back()));
        if (by_clocks()) {
          ++sent_[worker];
          answer_waiting();
        } else {
          update_of(worker);
        }
      }
      if (by_clocks()) update_of_all(step);
    }
    for (size_t worker = 0; worker < sent_.size(); ++worker) {
      if (waits(worker)) answer(worker);
    }
    for (const int rank : order_.at(steps + 1)) answer(static_cast<size_t>(rank - servers_.rank_of(0)));
    return std::move(written_);
  }

 private:
  bool by_clocks() const { return servers_.updates == Servers::Updates::kClocks; }
  bool waits(size_t worker) const { return written_.given[worker].size() == sent_[worker]; }
  void answer(size_t worker) { written_.given[worker].push_back(written_.updates.size()); }

  void answer_waiting() {
    const size_t ahead = written_.updates.size() + static_cast<size_t>(servers_.staleness);
    for (size_t worker = 0; worker < sent_.size(); ++worker) {
      if (waits(worker) && sent_[worker] <= ahead) answer(worker);
    }
  }

  void update_of(size_t worker) {
    const size_t number = written_.updates.size(), behind = number - written_.given[worker].back();
    double rate = rates_[number / sent_.size()];
    if (servers_.rate == Servers::Rate::kByStaleness && behind > 1) rate /= static_cast<double>(behind);
    written_.updates.push_back({{{worker, sent_[worker]++}}, rate});
    answer(worker);
  }

  void update_of_all(int64_t step) {
    const auto number = static_cast<size_t>(step - 1);
    WrittenServer::Update& update = written_.updates.emplace_back();
    update.rate = rates_[number];
    for (size_t worker = 0; worker < sent_.size(); ++worker) {
      if (sent_[worker] <= number)
        throw_error("a server has made update {} without the gradients of worker {}", step, worker);
      update.of.emplace_back(worker, number);
    }
    answer_waiting();
  }

  const Servers servers_;
  const std::vector<double>& rates_;
  const ArrivalOrder& order_;
  std::vector<size_t> sent_;  // steps, by worker
  WrittenServer written_;
};

class ServedComparison {
 public:
  ServedComparison(Reference& reference, const Plan& plan, const ServedRun& run)
      : reference_(reference),
        servers_(*plan.agreement.servers()),
        run_(run),
        left_(left_alone(reference)),
        start_(reference.record()[0].before),
        judge_(reference.program()) {
    judge_.raise(Verdict::kRounding);
    for (const ArrivalOrder& order : run.orders)
      written_.push_back(OrderReader(servers_, reference.training().rates, order).read());
  }

  Result go() {
    for (size_t worker = 0; worker < run_.workers.size(); ++worker) {
      for (size_t step = 0; step + 1 < run_.workers[worker].size() && !judge_.is_bug(); ++step)
        compare_gradients(worker, step);
      for (size_t server = 0; server < written_.size(); ++server) check_given(server, worker);
    }
    for (size_t server = 0; server < written_.size(); ++server) compare_updates(server);
    if (!judge_.is_bug()) check_meeting();
    return std::move(judge_.result);
  }

 private:
  Role role_of(const std::string& name) const { return reference_.program().find_state(name)->role; }

  static States over(States states, const States& other) {
    for (const auto& [name, values] : other) states[name] = values;
    return states;
  }

  void compare_gradients(size_t worker, size_t step) {
    const WorkerStep& found = run_.workers[worker][step];
    const Batch& batch = batches_[step % batches_.size()];
    reference_.replace(0, static_cast<int64_t>(step), 0, over(start_, found.given),
                       run_.rows.batch_of(worker, batch, others_for(reference_)));
    const Reference::Step& alone = reference_.record()[0];
    if (worker == 0 && step < batches_.size())
      judge_.result.losses.push_back({mean_loss(found.left), mean_loss(alone.left)});
    judge_.compare(fmt::format("step {} of worker {}, forward and backward", step + 1, worker), left_,
                   alone.left, found.left,
                   [&](Samples samples) { return reference_.left_bounds(0, samples); });
  }
  static double mean_loss(const States& left) {
    return static_cast<double>(left.at(std::string(kLossState))[0]) /
           std::max(1.0, static_cast<double>(left.at(std::string(kCountState))[0]));
  }

  void check_given(size_t server, size_t worker) {
    const std::vector<size_t>& versions = written_[server].given[worker];
    const std::vector<WorkerStep>& steps = run_.workers[worker];
    if (versions.size() != steps.size())
      return judge_.bug(fmt::format("worker {} has made {} steps, and server {} has answered {}", worker,
                                    steps.size() - 1, server, versions.size() - 1));
    for (size_t step = 0; step < steps.size(); ++step) {
      for (const auto& [name, values] : version(server, versions[step])) {
        const auto given = steps[step].given.find(name);
        if (given == steps[step].given.end() || same(given->second, values)) continue;
        judge_.bug(fmt::format("step {} of worker {}: {} is not what server {} has behind {} updates",
                               step + 1, worker, name, server, versions[step]));
      }
    }
  }
  const States& version(size_t server, size_t number) const {
    const std::vector<ServerUpdate>& updates = run_.servers[server];
    return number == 0 ? updates[0].before : updates[number - 1].after;
  }

  void compare_updates(size_t server) {
    const std::vector<WrittenServer::Update>& written = written_[server].updates;
    const std::vector<ServerUpdate>& found = run_.servers[server];
    if (written.size() != found.size())
      return judge_.bug(fmt::format("server {} has made {} updates, and {} are right", server, found.size(),
                                    written.size()));
    if (written_[server].stalest != run_.stalest[server])
      judge_.bug(fmt::format("server {} does not say how stale its gradients were", server));
    for (size_t number = 0; number < written.size() && !judge_.is_bug(); ++number) {
      const std::string when = fmt::format("update {} of server {}", number + 1, server);
      for (const auto& [name, values] : version(server, number)) {
        if (!same(values, found[number].before.at(name)))
          judge_.bug(fmt::format("{}: {} has changed since the one before", when, name));
      }
      compare_sums(when, written[number], found[number]);
      if (!judge_.is_bug()) compare_update(when, number, written[number].rate, found[number]);
    }
  }

  // Of running statistics, the sum is of those of workers times their targets.
  void compare_sums(const std::string& when, const WrittenServer::Update& update, const ServerUpdate& found) {
    std::vector<std::string> names;
    States expected;
    Bounds bounds;
    for (const auto& [name, values] : found.left) {
      names.push_back(name);
      Estimate sum = Estimate::zeros(values.size());
      for (const auto& [worker, step] : update.of) {
        const States& left = run_.workers[worker][step].left;
        const bool is_buffer = role_of(name) == Role::kPending;
        sum.add(is_buffer ? static_cast<double>(left.at(std::string(kCountState))[0]) : 1,
                Estimate(left.at(name)));
      }
      expected[name].assign(sum.values.begin(), sum.values.end());
      bounds[name].assign(sum.bounds.begin(), sum.bounds.end());
    }
    judge_.compare(when + ", sums", names, expected, found.left, [&](Samples) { return bounds; });
  }

  void compare_update(const std::string& when, size_t number, double rate, const ServerUpdate& found) {
    States left = reference_.record()[0].left, reach;
    for (auto& [name, values] : left) std::ranges::fill(values, 0);
    reach = left;
    left = over(std::move(left), found.left);
    reference_.replace(0, static_cast<int64_t>(number), rate, over(start_, found.before));
    States updated = reference_.update(0, left);
    std::vector<std::string> names;
    States after = found.after;
    for (const auto& [name, values] : found.before) names.push_back(name);
    if (servers_.count == 1) {  // of several, each has the norm of some gradients
      names.insert(names.end(), {"loss", "norm"});
      after["loss"] = {static_cast<float>(found.result.loss)};
      after["norm"] = {static_cast<float>(found.result.norm)};
    }
    const States renewed = renewed_buffers(found);
    judge_.compare(when, names, over(updated, renewed), after, [&](Samples samples) {
      Bounds bounds = reference_.update_bounds(0, left, reach, updated, samples);
      constexpr float kUnits = 0x1p-20F;  // of the few roundings behind a mean
      for (const auto& [name, values] : renewed) {
        for (size_t i = 0; i < values.size(); ++i)
          bounds[name][i] = kUnits * (std::abs(values[i]) + std::abs(found.before.at(name)[i]));
      }
      return bounds;
    });
  }

  // The mean of what workers have made of each, or so much of the way there as there are workers.
  States renewed_buffers(const ServerUpdate& found) const {
    States renewed;
    const auto count = static_cast<double>(found.left.at(std::string(kCountState))[0]);
    const double share =
        servers_.updates == Servers::Updates::kClocks ? 1 : 1 / static_cast<double>(servers_.workers);
    for (const auto& [name, values] : found.before) {
      if (role_of(name) != Role::kBuffer) continue;
      std::vector<float>& now = renewed[name] = values;
      if (found.result.skipped) continue;
      const std::vector<float>& sums = found.left.at(pending_name(name));
      for (size_t i = 0; i < now.size(); ++i)
        now[i] = static_cast<float>((1 - share) * static_cast<double>(values[i]) +
                                    share * static_cast<double>(sums[i]) / count);
    }
    return renewed;
  }

  void check_meeting() {
    for (size_t server = 0; server < run_.servers.size() && !run_.met.empty(); ++server) {
      for (const auto& [name, values] : run_.servers[server].back().after) {
        if (role_of(name) == Role::kParameter && !same(run_.met.at(name), values))
          judge_.bug(fmt::format("the meeting: {} is not that of server {}", name, server));
      }
    }
  }

  Reference& reference_;
  const Servers servers_;
  const ServedRun& run_;
  const std::vector<std::string> left_;
  const std::vector<Batch> batches_ = reference_.training().batches;  // the reference is given others
  const States start_;
  std::vector<WrittenServer> written_;
  Judge judge_;
};

// What its lists promise: a worker sends gradients in every step, a server an answer to each.
std::string sent_problem(const ServedRun& run, const Plan& plan, const std::vector<Program>& programs) {
  const Servers& servers = *plan.agreement.servers();
  for (const Program& program : programs) {
    double promised = 0;
    for (const ActionList& list : program.lists) {
      const bool tells = list.when.kind == When::Kind::kAsked && list.when.what == When::What::kTell;
      const int worker = (tells ? list.when.peer : program.rank) - servers.rank_of(0);
      if (tells || list.when.kind == When::Kind::kEvery)
        promised += bytes_sent(program, list) *
                    static_cast<double>(run.workers[static_cast<size_t>(worker)].size() - 1);
      else if (list.when == When::asked(When::What::kMeet))
        promised += bytes_sent(program, list);
    }
    // Several servers also tell each other of the last step of each worker.
    const bool tells_others = servers.count > 1 && servers.serves(program.rank);
    const double more = tells_others ? 64.0 * (servers.workers + 2 * servers.count) : 0;
    const std::optional<double> sent = run.sent[static_cast<size_t>(program.rank)];
    if (sent && (*sent < promised || *sent > promised + more))
      return fmt::format("rank {} has sent {} bytes, and its program promises {}", program.rank, *sent,
                         promised);
  }
  return "";
}

std::string replay_problem(const ServedRun& run, const ServedRun& again) {
  for (size_t server = 0; server < run.servers.size(); ++server) {
    for (const auto& [name, values] : run.servers[server].back().after) {
      if (!same(values, again.servers[server].back().after.at(name)))
        return fmt::format("a replay of the order of arrivals has other bits: {} of server {}", name, server);
    }
  }
  return "";
}

}  // namespace

Result verify_served(const Training& training, const Plan& plan, Width width,
                     const std::vector<Program>& programs) {
  Reference reference(with_own_groups(training, plan), width);
  const ServedRun run = run_served(reference, plan, programs, {});
  std::string problem = sent_problem(run, plan, programs);
  // Before the reference is given other batches.
  if (problem.empty()) problem = replay_problem(run, run_served(reference, plan, programs, run.orders));
  Result result = ServedComparison(reference, plan, run).go();
  if (problem.empty() || result.verdict == Verdict::kBug) return result;
  result.verdict = Verdict::kBug;
  result.reason = problem;
  return result;
}

}  // namespace trireme::parity

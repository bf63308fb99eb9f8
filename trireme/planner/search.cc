// See search.h. Simulations are done in rounds of as many as there are threads, so that what is found does
// not depend on which of them is done first, unless time runs out.
#include "trireme/planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::planner {
namespace {

using Clock = std::chrono::steady_clock;

// How far below what a Program needs an estimate of memory may be, or above: chunks keep less of their inner
// boundaries than single units. Choices beyond it are not simulated.
constexpr double kMemorySlack = 0.8;
// Times that differ by no more than this share are the same as far as the model knows.
constexpr double kEqualTimes = 0.01;
// Simulations without a faster one, after which estimates are believed.
constexpr int kPatience = 4;

struct Simulated {
  std::optional<sim::SimReport> report;
  std::string why;  // there is none
};

class Search {
 public:
  Search(const Subject& subject, const Cluster& cluster, const SearchOptions& options)
      : subject_(subject), cluster_(cluster), options_(options), costs_(subject, cluster) {}

  std::vector<Candidate> all() {
    estimate_all();
    return std::move(candidates_);
  }

  SearchResult run() {
    estimate_all();
    done_.resize(candidates_.size());
    while (true) {
      const std::vector<size_t> round = next_round();
      if (round.empty()) break;
      simulate(round);
    }
    if (result_.fitting.empty()) try_offload();
    if (result_.fitting.empty()) refuse();
    if (!all_estimated_) return std::move(result_);  // and nothing is known of larger microbatches
    if (result_.best().choice.offload != Choice::Offload::kNothing) {
      result_.end = SearchResult::End::kUnlikely;  // the same
      return std::move(result_);
    }
    result_.least_seconds = result_.best().report.step_seconds;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!done_[i])
        result_.least_seconds = std::min(result_.least_seconds, candidates_[i].estimate.least_seconds);
    }
    if (result_.least_seconds >= result_.best().report.step_seconds) result_.end = SearchResult::End::kProved;
    prefer_few_microbatches();
    try_boundaries_in_parts();
    return std::move(result_);
  }

 private:
  bool is_over() const {
    return (options_.stop && options_.stop->load()) ||
           std::chrono::duration<double>(Clock::now() - begin_).count() > options_.seconds;
  }

  // Larger microbatches need more memory: once the smallest that a mesh allows is too large, the others are
  // not looked at.
  void estimate_all() {
    std::vector<Choice> choices = all_choices(subject_, cluster_);
    if (choices.empty()) refuse_space();
    std::erase_if(choices, [&](const Choice& choice) { return !fits(choice, options_.wish); });
    if (choices.empty()) refuse_wish();
    result_.choices = std::ssize(choices);
    std::ranges::stable_sort(choices, {}, &Choice::rows);
    Estimator estimator(subject_, cluster_, costs_);
    for (auto first = choices.begin(); first != choices.end();) {
      if (is_over() && !candidates_.empty()) {
        all_estimated_ = false;
        break;
      }
      const auto last = std::find_if(first, choices.end(),
                                     [&](const Choice& choice) { return choice.rows != first->rows; });
      std::vector<Split> splits;
      for (auto choice = first; choice != last; ++choice) splits.push_back(choice->split());
      std::ranges::sort(splits);
      splits.erase(std::ranges::unique(splits).begin(), splits.end());
      std::erase_if(splits, [&](const Split& split) { return outgrown(split); });
      costs_.measure(splits, options_.threads);
      std::map<Split, double> least;  // fill, over meshes and schedules
      for (; first != last; ++first) {
        const Split split = first->split();
        if (outgrown(split)) {
          ++result_.too_large;
          continue;
        }
        const UnitCosts::Table& table = costs_.of(split);
        if (table.on.empty()) {
          ++result_.refused;
          why_refused_ = table.why;
          continue;
        }
        Estimate estimate = estimator.of(*first);
        const auto [smallest, is_new] = least.emplace(split, estimate.fill());
        smallest->second = std::min(smallest->second, estimate.fill());
        if (!nearest_ || estimate.fill() < nearest_->estimate.fill()) nearest_ = {*first, estimate};
        if (estimate.fill() * kMemorySlack > 1) {
          ++result_.too_large;
          if (can_offload(*first)) outgrown_candidates_.push_back({*first, std::move(estimate)});
          continue;
        }
        candidates_.push_back({*first, std::move(estimate)});
      }
      for (const auto& [split, fill] : least) {
        Split any_rows = split;
        any_rows.rows = 0;
        if (fill * kMemorySlack > 1) outgrown_.insert(any_rows);
      }
    }
    std::ranges::stable_sort(candidates_, {}, [](const Candidate& c) { return c.estimate.seconds; });
  }
  bool outgrown(Split split) const {
    split.rows = 0;
    return outgrown_.contains(split);
  }

  double best_seconds() const {
    return result_.fitting.empty() ? std::numeric_limits<double>::infinity()
                                   : result_.best().report.step_seconds;
  }

  // Plans of one kind: what one's estimates were off by, the others' are too.
  using Kind = std::tuple<bool, std::string, std::string, Recompute::Kind>;
  static Kind kind_of(const Choice& choice) {
    return {choice.pipe > 1, choice.schedule, choice.sharing, choice.recompute};
  }
  // By the least that such plans were off by: what is simulated next is what may be the fastest.
  double corrected_seconds(const Candidate& candidate) const {
    const auto known = time_ratio_.find(kind_of(candidate.choice));
    return candidate.estimate.seconds * (known == time_ratio_.end() ? 1 : known->second);
  }
  double corrected_fill(const Candidate& candidate) const {
    const auto known = memory_ratio_.find(kind_of(candidate.choice));
    return candidate.estimate.fill() * (known == memory_ratio_.end() ? usual_memory_ratio_ : known->second);
  }

  // While nothing fits: first what is fast, then what is small, and no more when that does not fit either.
  std::vector<size_t> round_for_room() {
    std::vector<size_t> open;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!done_[i]) open.push_back(i);
    }
    if (tried_ >= 3 * kPatience) return {};
    if (tried_ >= kPatience)
      std::ranges::stable_sort(open, {}, [&](size_t i) { return corrected_fill(candidates_[i]); });
    else
      std::ranges::stable_partition(open, [&](size_t i) { return corrected_fill(candidates_[i]) <= 1; });
    open.resize(std::min(open.size(), static_cast<size_t>(options_.threads)));
    return open;
  }

  std::vector<size_t> next_round() {
    const bool stopped = options_.stop && options_.stop->load();
    if (result_.fitting.empty()) return stopped ? std::vector<size_t>() : round_for_room();
    std::vector<size_t> round;
    if (is_over() || result_.simulated >= options_.simulations) {
      result_.end = stopped ? SearchResult::End::kStopped : SearchResult::End::kLimit;
      return round;
    }
    bool unlikely = false;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& candidate = candidates_[i];
      if (done_[i] || candidate.estimate.least_seconds >= best_seconds()) continue;
      // Estimates are believed, with the errors that were seen, once a few have not led to anything faster.
      const bool slower = candidate.estimate.seconds * lowest_ratio_ >= best_seconds();
      if (corrected_fill(candidate) > 1 || (slower && since_better_ >= kPatience) ||
          since_better_ >= 3 * kPatience) {
        unlikely = true;
        continue;
      }
      round.push_back(i);
    }
    std::ranges::stable_sort(round, {}, [&](size_t i) { return corrected_seconds(candidates_[i]); });
    round.resize(std::min(round.size(), static_cast<size_t>(options_.threads)));
    if (round.empty()) result_.end = unlikely ? SearchResult::End::kUnlikely : SearchResult::End::kProved;
    return round;
  }

  Simulated simulate_one(const Choice& choice, const Plan& plan) const {
    try {
      return {planner::simulate(subject_, cluster_, choice, plan), ""};
    } catch (const Error& error) {
      return {std::nullopt, error.what()};
    }
  }

  // Of plans that take the same time as far as the model knows, one with fewer microbatches asks for less of
  // what it does not know: ranks that meet more often wait more for each other's delays, and small ops reach
  // less. Such plans may not have been simulated yet: the fewest microbatches first, until one is as fast.
  void prefer_few_microbatches() {
    const double enough = best_seconds() * (1 + kEqualTimes);
    const auto fewest = [&] {
      const auto end = std::ranges::find_if(
          result_.fitting, [&](const Found& found) { return found.report.step_seconds > enough; });
      return std::min_element(result_.fitting.begin(), end, [](const Found& a, const Found& b) {
        return a.choice.microbatches < b.choice.microbatches;
      });
    };
    std::vector<size_t> open;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& candidate = candidates_[i];
      if (!done_[i] && candidate.estimate.least_seconds <= enough && corrected_fill(candidate) <= 1)
        open.push_back(i);
    }
    std::ranges::stable_sort(open, {}, [&](size_t i) { return candidates_[i].choice.microbatches; });
    open.resize(std::min<size_t>(open.size(), 2 * kPatience));
    for (const size_t i : open) {
      if (is_over() || candidates_[i].choice.microbatches >= fewest()->choice.microbatches) break;
      simulate({i});
    }
    const auto chosen = fewest();
    std::rotate(result_.fitting.begin(), chosen, std::next(chosen));
  }

  // Of the fastest that have boundaries. It saves bytes of messages and costs gathers, so links decide, and a
  // plan that sends more may gain more than the one before it.
  void try_boundaries_in_parts() {
    std::vector<Found> in_parts;
    int tried = 0;
    for (const Found& whole : result_.fitting) {
      if (tried == kPatience || (is_over() && tried > 0)) break;
      if (whole.choice.tensor == 1 || whole.choice.pipe == 1) continue;
      ++tried;
      Choice choice = whole.choice;
      choice.boundaries = Plan::Boundaries::kParts;
      Plan plan = plan_of(choice, whole.estimate.begins);
      Simulated parts = simulate_one(choice, plan);
      if (!parts.report || parts.report->step_seconds >= whole.report.step_seconds) continue;
      const sim::RankReport& fullest = parts.report->fullest();
      if (static_cast<double>(fullest.memory.peak_bytes) > fullest.device->memory_bytes) continue;
      in_parts.push_back({choice, std::move(plan), whole.estimate, std::move(*parts.report)});
    }
    for (Found& found : in_parts) {
      const auto slower = std::ranges::find_if(result_.fitting, [&](const Found& other) {
        return other.report.step_seconds > found.report.step_seconds;
      });
      result_.least_seconds = std::min(result_.least_seconds, found.report.step_seconds);
      result_.fitting.insert(slower, std::move(found));
    }
  }

  bool can_offload(const Choice& choice) const {
    return choice.pipe == 1 && std::ranges::all_of(cluster_.devices, [](const DeviceClass& device) {
             return device.kind != "cpu" && device.offload_bytes_per_second > 0;
           });
  }

  // Offloading only takes time, and is for what does not fit without: of the plans that are fast and of those
  // that are small, first with the optimizer's states in the host's memory, then with all.
  void try_offload() {
    std::vector<Candidate> all;
    for (const Candidate& candidate : candidates_) {
      if (can_offload(candidate.choice)) all.push_back(candidate);
    }
    all.insert(all.end(), outgrown_candidates_.begin(), outgrown_candidates_.end());
    std::vector<Candidate> tried;
    const auto add_first = [&](auto key) {
      std::ranges::stable_sort(all, {}, key);
      tried.insert(tried.end(), all.begin(), all.begin() + std::min<int64_t>(std::ssize(all), kPatience));
    };
    add_first([](const Candidate& candidate) { return candidate.estimate.seconds; });
    add_first([](const Candidate& candidate) { return candidate.estimate.fill(); });
    for (Candidate& candidate : tried) {
      for (const auto what : {Choice::Offload::kOptimizer, Choice::Offload::kAllStates}) {
        if (is_over() && !result_.fitting.empty()) return;
        candidate.choice.offload = what;
        if (!goes_with(candidate.choice, subject_.features)) continue;
        Plan plan = plan_of(candidate.choice, candidate.estimate.begins);
        Simulated done = simulate_one(candidate.choice, plan);
        const size_t before = result_.fitting.size();
        take(candidate, std::move(plan), std::move(done));
        if (result_.fitting.size() > before) break;
      }
    }
  }

  void simulate(const std::vector<size_t>& round) {
    std::vector<Simulated> done(round.size());
    std::vector<Plan> plans;
    for (const size_t i : round)
      plans.push_back(plan_of(candidates_[i].choice, candidates_[i].estimate.begins));
    {
      std::vector<std::jthread> others;
      for (size_t i = 1; i < round.size(); ++i)
        others.emplace_back([&, i] { done[i] = simulate_one(candidates_[round[i]].choice, plans[i]); });
      done[0] = simulate_one(candidates_[round[0]].choice, plans[0]);
    }
    const double before = best_seconds();
    for (size_t i = 0; i < round.size(); ++i) {
      done_[round[i]] = true;
      ++tried_;
      take(candidates_[round[i]], std::move(plans[i]), std::move(done[i]));
    }
    since_better_ = best_seconds() < before ? 0 : since_better_ + static_cast<int>(round.size());
  }

  void take(const Candidate& candidate, Plan plan, Simulated simulated) {
    if (!simulated.report) {
      ++result_.refused;
      why_refused_ = simulated.why;
      return;
    }
    ++result_.simulated;
    sim::SimReport& report = *simulated.report;
    const sim::RankReport& fullest = report.fullest();
    const double bytes = static_cast<double>(fullest.memory.peak_bytes);
    memory_ratio_[kind_of(candidate.choice)] =
        bytes / fullest.device->memory_bytes / candidate.estimate.fill();
    usual_memory_ratio_ = 0;
    for (const auto& [kind, ratio] : memory_ratio_)
      usual_memory_ratio_ += ratio / static_cast<double>(memory_ratio_.size());
    if (bytes > fullest.device->memory_bytes) {
      ++result_.too_large;
      if (bytes - fullest.device->memory_bytes < simulated_over_) {
        simulated_over_ = bytes - fullest.device->memory_bytes;
        simulated_memory_ = fullest.device->memory_bytes;
        nearest_simulated_ = candidate.choice;
      }
      return;
    }
    const double ratio = report.step_seconds / candidate.estimate.seconds;
    double& known = time_ratio_.try_emplace(kind_of(candidate.choice), ratio).first->second;
    known = std::min(known, ratio);
    lowest_ratio_ = std::min(lowest_ratio_, ratio);
    Found found{candidate.choice, std::move(plan), candidate.estimate, std::move(report)};
    const auto place = std::ranges::upper_bound(result_.fitting, found.report.step_seconds, {},
                                                [](const Found& f) { return f.report.step_seconds; });
    result_.fitting.insert(place, std::move(found));
  }

  [[noreturn]] void refuse_space() const {
    throw_error(
        "no mesh of all {} devices of the cluster '{}' divides the batch of {} rows and the {} parts of this "
        "model; a batch that is a multiple of the devices, or other hosts (--hosts), would be divided",
        cluster_.device_count(), cluster_.name, subject_.batch, subject_.units.size());
  }

  [[noreturn]] void refuse_wish() const {
    std::vector<std::string> words;
    for (const auto& [key, value] : options_.wish) words.push_back(fmt::format("{}={}", key, value));
    throw_error(
        "no plan has {} on the {} devices of the cluster '{}', with a batch of {} rows and {} parts of the "
        "model: the axes' ranks multiply to the devices, tensor divides {} and stays inside a host, and a "
        "pipeline has no more chunks than the model parts",
        join(words, ", "), cluster_.device_count(), cluster_.name, subject_.batch, subject_.units.size(),
        subject_.tensor_divides);
  }

  [[noreturn]] void refuse() const {
    if (options_.stop && options_.stop->load())
      throw_error("the search was ended before any plan was simulated");
    if (std::isfinite(simulated_over_))
      throw_error(
          "nothing fits: of the {} plans that were simulated, the fastest and the smallest by their "
          "estimates, {} "
          "comes nearest, and needs {} more than the {} of a device; more devices, a smaller batch or "
          "sequence, "
          "or a smaller model are needed",
          result_.simulated, to_string(nearest_simulated_),
          format_bytes(static_cast<size_t>(simulated_over_)),
          format_bytes(static_cast<size_t>(simulated_memory_)));
    if (nearest_ && nearest_->estimate.fill() > kMemorySlack) {
      const Estimate& estimate = nearest_->estimate;
      throw_error(
          "nothing fits: a device has {}, and at least about {} are needed, {} too much, even with {}; more "
          "devices, a smaller batch or sequence, or a smaller model are needed",
          format_bytes(static_cast<size_t>(estimate.memory_bytes)),
          format_bytes(static_cast<size_t>(estimate.bytes)),
          format_bytes(static_cast<size_t>(std::max(0.0, estimate.bytes - estimate.memory_bytes))),
          to_string(nearest_->choice));
    }
    throw_error("none of {} plans can work; the last one: {}", result_.choices, why_refused_);
  }

  const Subject& subject_;
  const Cluster& cluster_;
  const SearchOptions& options_;
  const Clock::time_point begin_ = Clock::now();
  UnitCosts costs_;
  std::vector<Candidate> candidates_;           // by estimate
  std::vector<Candidate> outgrown_candidates_;  // too large, unless states are offloaded
  std::vector<bool> done_;                      // of candidates: simulated, or refused
  std::set<Split> outgrown_;                    // with any rows
  bool all_estimated_ = true;
  std::map<Kind, double> memory_ratio_, time_ratio_;
  double usual_memory_ratio_ = 1;  // of kinds of which none was simulated
  double lowest_ratio_ = 1;        // of what was simulated to what was estimated
  int since_better_ = 0, tried_ = 0;
  std::optional<Candidate> nearest_;  // to fitting, by its estimate
  double simulated_over_ = std::numeric_limits<double>::infinity(), simulated_memory_ = 0;
  Choice nearest_simulated_;
  std::string why_refused_;
  SearchResult result_;
};

}  // namespace

sim::SimReport simulate(const Subject& subject, const Cluster& cluster, const Choice& choice,
                        const Plan& plan, const sim::SimOptions& options) {
  const DeviceMap device_map(plan.mesh, cluster);
  const BatchShape shape{choice.rows * choice.row_parts(), choice.microbatches};
  sim::SimOptions with_plan = options;
  with_plan.plan = plan;
  return sim::simulate(device_map, subject.programs(plan, shape, Subject::Model::kWhole), with_plan);
}

std::vector<Candidate> candidates(const Subject& subject, const Cluster& cluster,
                                  const SearchOptions& options) {
  return Search(subject, cluster, options).all();
}

SearchResult search(const Subject& subject, const Cluster& cluster, const SearchOptions& options) {
  return Search(subject, cluster, options).run();
}

}  // namespace trireme::planner

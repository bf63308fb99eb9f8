// See search.h. Simulations are done in rounds of a fixed number, whatever the number of threads, so that
// what is found depends neither on them nor on which is done first.
#include "trireme/planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "trireme/base/text.h"
#include "trireme/planner/corrections.h"
#include "trireme/planner/jobs.h"

namespace trireme::planner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRound = 4;  // simulations between two looks at what they showed
// Times that differ by no more than this share are the same as far as the model knows.
constexpr double kEqualTimes = 0.01;
// Of what an estimate says of memory: below, a plan is taken to fit, and above the second not to, until a
// simulation shows something else.
constexpr double kLikelyToFit = 1, kUnlikelyToFit = 1.15;
// Of each of the steps after the search proper: fewer microbatches, offload.
constexpr int kTries = 4;
// What shares a collective, beside a plan's default of 4 MiB.
constexpr int64_t kSmallBucketKib = 1024, kLargeBucketKib = 16384, kLargestBucketKib = 65536;
// Plans that take up to so many times as long as the best are tried with other buckets: collectives of ZeRO
// on many ranks may be latency more than half of their time.
constexpr double kBucketsGain = 2.5;

// When a search has to end. Asked by its threads too.
struct Limit {
  Clock::time_point begin = Clock::now();
  double seconds = 0;
  const std::atomic<bool>* stop = nullptr;

  bool is_stopped() const { return stop && stop->load(); }
  bool is_over() const {
    return is_stopped() || std::chrono::duration<double>(Clock::now() - begin).count() > seconds;
  }
};

struct Simulated {
  std::optional<sim::SimReport> report;
  std::string why;  // there is none
};

// What threads may still be at work on when a search has ended.
struct Context {
  Subject subject;
  Cluster cluster;
  Limit limit;
  UnitCosts costs;
  Jobs jobs;

  Context(const Subject& subject_in, const Cluster& cluster_in, const SearchOptions& options)
      : subject(subject_in),
        cluster(cluster_in),
        limit{.seconds = options.seconds, .stop = options.stop},
        costs(subject, cluster),
        jobs(options.threads, [this] { return limit.is_over(); }) {
    // A simulation asks for one Program after another: between two of them it can end.
    subject.programs = [this, programs = subject_in.programs](const Plan& plan, const BatchShape& shape,
                                                              Subject::Model model) {
      end_if_over();
      return [this, of_rank = programs(plan, shape, model)](int rank) {
        end_if_over();
        return of_rank(rank);
      };
    };
  }
  void end_if_over() const {
    if (limit.is_over()) throw_error("the search is over");
  }
  Simulated simulated(const Choice& choice, const Plan& plan) const {
    try {
      return {simulate(subject, cluster, choice, plan), ""};
    } catch (const Error& error) {
      return {std::nullopt, error.what()};
    }
  }
};

class Search {
 public:
  Search(const Subject& subject, const Cluster& cluster, const SearchOptions& options)
      : options_(options),
        context_(std::make_shared<Context>(subject, cluster, options)),
        subject_(context_->subject),
        cluster_(context_->cluster) {}

  std::vector<Candidate> all() {
    estimate_all();
    std::ranges::stable_sort(candidates_, {}, [](const Candidate& c) { return c.estimate.seconds; });
    return std::move(candidates_);
  }

  SearchResult run() {
    estimate_all();
    done_.resize(candidates_.size());
    for (std::vector<size_t> round = next_round(); !round.empty(); round = next_round()) {
      if (!simulate_round(round)) break;
    }
    if (result_.fitting.empty()) try_offload();
    if (result_.fitting.empty()) refuse();
    if (result_.best().choice.offload != Choice::Offload::kNothing) {
      if (result_.end == SearchResult::End::kProved) result_.end = SearchResult::End::kUnlikely;
    } else if (all_estimated_) {
      settle();
      choose_buckets();
    }
    note_limits();
    if (context_->jobs.has_left_any()) result_.unfinished = context_;
    return std::move(result_);
  }

 private:
  bool is_over() const { return context_->limit.is_over(); }
  bool is_spent() const { return tried_ >= options_.effort; }
  void note_limits() {
    if (!was_cut_short_) return;
    result_.end = context_->limit.is_stopped() ? SearchResult::End::kStopped : SearchResult::End::kTime;
  }
  // Whether the search has to end here; remembered, so that it does not claim to have seen everything.
  bool cut_short() {
    was_cut_short_ = was_cut_short_ || is_over();
    return was_cut_short_;
  }
  void report_progress() const {
    if (!options_.progress) return;
    options_.progress({.choices = result_.choices,
                       .estimated = result_.estimated,
                       .simulated = tried_,
                       .effort = options_.effort,
                       .best_seconds = result_.fitting.empty() ? 0 : best_seconds()});
  }

  // Larger microbatches need more memory: once the smallest that a mesh allows can not fit, the others are
  // not looked at.
  void estimate_all() {
    std::vector<Choice> choices = all_choices(subject_, cluster_, options_.devices);
    if (choices.empty()) refuse_space();
    std::erase_if(choices, [&](const Choice& choice) { return !fits(choice, options_.wish); });
    if (choices.empty()) refuse_wish();
    result_.choices = std::ssize(choices);
    std::ranges::stable_sort(choices, {}, &Choice::rows);
    Estimator estimator(subject_, cluster_, context_->costs);
    for (auto first = choices.begin(); first != choices.end();) {
      const auto last = std::find_if(first, choices.end(),
                                     [&](const Choice& choice) { return choice.rows != first->rows; });
      if (!estimate_rows(estimator, {first, last})) {
        all_estimated_ = false;
        return;
      }
      first = last;
    }
  }

  // Choices of the same number of rows. False where the search is over.
  bool estimate_rows(Estimator& estimator, std::span<const Choice> choices) {
    std::vector<Split> splits;
    for (const Choice& choice : choices) splits.push_back(choice.split());
    std::ranges::sort(splits);
    splits.erase(std::unique(splits.begin(), splits.end()), splits.end());
    std::erase_if(splits, [&](const Split& split) { return outgrown(split); });
    report_progress();
    if (!context_->costs.measure(splits, context_->jobs)) {
      cut_short();
      return false;
    }
    std::map<Split, double> least;  // fill, over meshes and schedules
    for (const Choice& choice : choices) {
      if (cut_short()) return false;
      if (++result_.estimated % 256 == 0) report_progress();
      const Split split = choice.split();
      if (outgrown(split)) {
        ++result_.too_large;
        continue;
      }
      const UnitCosts::Table& table = context_->costs.of(split);
      if (table.on.empty()) {
        ++result_.refused;
        why_refused_ = table.why;
        continue;
      }
      Estimate estimate = estimator.of(choice);
      const double fill = estimate.least_fill();
      const auto [smallest, is_new] = least.emplace(split, fill);
      smallest->second = std::min(smallest->second, fill);
      if (!nearest_ || fill < nearest_->estimate.least_fill()) nearest_ = {choice, estimate};
      if (fill > 1) {
        ++result_.too_large;
        if (can_offload(choice)) outgrown_candidates_.push_back({choice, std::move(estimate)});
        continue;
      }
      candidates_.push_back({choice, std::move(estimate)});
    }
    for (const auto& [split, fill] : least) {
      Split any_rows = split;
      any_rows.rows = 0;
      if (fill > 1) outgrown_.insert(any_rows);
    }
    return true;
  }
  bool outgrown(Split split) const {
    split.rows = 0;
    return outgrown_.contains(split);
  }

  double best_seconds() const {
    return result_.fitting.empty() ? std::numeric_limits<double>::infinity()
                                   : result_.best().report.step_seconds;
  }
  double corrected_seconds(const Candidate& c) const { return corrections_.seconds(c.choice, c.estimate); }
  double corrected_fill(const Candidate& c) const { return corrections_.fill(c.choice, c.estimate); }

  // Candidates that may be faster than the best so far, by their bounds; sorted by when to try them.
  std::vector<size_t> open_candidates() const {
    struct Open {
      size_t number;
      bool likely;
      double seconds, fill;
    };
    std::vector<Open> open;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& candidate = candidates_[i];
      if (done_[i] || candidate.estimate.least_seconds >= best_seconds()) continue;
      const double fill = corrected_fill(candidate), seconds = corrected_seconds(candidate);
      open.push_back({i, fill <= kUnlikelyToFit, fill <= kLikelyToFit ? seconds : fill * seconds, fill});
    }
    // First those that should fit, the fastest first, then the others, the smallest first.
    std::ranges::stable_sort(open, [](const Open& a, const Open& b) {
      if (a.likely != b.likely) return a.likely;
      return a.likely ? a.seconds < b.seconds : a.fill < b.fill;
    });
    std::vector<size_t> numbers;
    for (const Open& one : open) numbers.push_back(one.number);
    return numbers;
  }

  // What is believed to be the fastest; of those, one that differs from the best in one respect alone, and
  // one of a family of which nothing is known. While nothing fits, half of them are the smallest instead.
  std::vector<size_t> next_round() {
    if (cut_short()) return {};
    report_progress();
    if (is_spent()) {
      result_.end = SearchResult::End::kEffort;
      return {};
    }
    const std::vector<size_t> open = open_candidates();
    if (open.empty()) return {};
    if (!result_.fitting.empty() && std::ranges::none_of(open, [&](size_t i) { return may_be_faster(i); })) {
      result_.end = SearchResult::End::kUnlikely;
      return {};
    }
    std::vector<size_t> round;
    const auto add_first = [&](auto is_wanted) {
      const auto found = std::ranges::find_if(
          open, [&](size_t i) { return std::ranges::find(round, i) == round.end() && is_wanted(i); });
      if (found != open.end()) round.push_back(*found);
    };
    const auto any = [](size_t) { return true; };
    const size_t room = std::min(kRound, static_cast<size_t>(options_.effort - tried_));
    add_first(any);
    if (result_.fitting.empty()) {
      std::vector<size_t> smallest = open;
      std::ranges::stable_sort(smallest, {}, [&](size_t i) { return corrected_fill(candidates_[i]); });
      for (size_t i = 0; i < std::min<size_t>(2, smallest.size()); ++i) {
        if (std::ranges::find(round, smallest[i]) == round.end()) round.push_back(smallest[i]);
      }
    } else {
      add_first([&](size_t i) { return may_be_faster(i) && is_neighbour(candidates_[i].choice); });
      add_first([&](size_t i) { return may_be_faster(i) && !corrections_.knows(candidates_[i].choice); });
    }
    while (round.size() < std::min(room, open.size())) add_first(any);
    round.resize(std::min(round.size(), room));
    return round;
  }

  // As far as simulations have shown how much faster than their estimates plans can be.
  bool may_be_faster(size_t i) const {
    const auto& [choice, estimate] = candidates_[i];
    return corrected_fill(candidates_[i]) <= kUnlikelyToFit &&
           corrections_.least_seconds(choice, estimate) < best_seconds();
  }

  // Of the best so far: on the same mesh, different in one of the other respects.
  bool is_neighbour(const Choice& choice) const {
    const Choice& best = result_.best().choice;
    if (choice.data != best.data || choice.tensor != best.tensor || choice.pipe != best.pipe) return false;
    const int differences = (choice.sharing != best.sharing) + (choice.rows != best.rows) +
                            (choice.recompute != best.recompute) +
                            (choice.tensor_preset != best.tensor_preset || choice.layouts != best.layouts) +
                            (choice.schedule != best.schedule || choice.chunks != best.chunks) +
                            (choice.boundaries != best.boundaries);
    return differences == 1;
  }

  struct Asked {
    Choice choice;
    Plan plan;
  };
  // Those that were not done when the search was over have no report and no reason.
  std::vector<std::optional<Simulated>> simulate_all(std::vector<Asked> plans) {
    const auto asked = std::make_shared<const std::vector<Asked>>(std::move(plans));
    std::vector<std::optional<Simulated>> all =
        context_->jobs.run<Simulated>(asked->size(), [context = context_.get(), asked](size_t i) {
          return context->simulated((*asked)[i].choice, (*asked)[i].plan);
        });
    for (std::optional<Simulated>& one : all) {
      if (one && !one->report && is_over()) one.reset();
      if (!one) cut_short();
    }
    return all;
  }

  // False where the search was over before all of them were done; those that were done count.
  bool simulate_round(const std::vector<size_t>& round) {
    std::vector<Asked> asked;
    for (const size_t i : round)
      asked.push_back(
          {candidates_[i].choice, plan_of(candidates_[i].choice, candidates_[i].estimate.begins)});
    std::vector<std::optional<Simulated>> done = simulate_all(asked);
    bool all_done = true;
    for (size_t i = 0; i < round.size(); ++i) {
      all_done = all_done && done[i];
      if (!done[i]) continue;
      done_[round[i]] = true;
      take(candidates_[round[i]], std::move(asked[i].plan), std::move(*done[i]));
    }
    return all_done;
  }

  // Counts a simulation, learns from it and, if it fits, puts it among the others by its time.
  void take(const Candidate& candidate, Plan plan, Simulated simulated) {
    ++tried_;
    if (!simulated.report) {
      ++result_.refused;
      why_refused_ = simulated.why;
      return;
    }
    ++result_.simulated;
    sim::SimReport& report = *simulated.report;
    const sim::RankReport& fullest = report.fullest();
    const double bytes = static_cast<double>(fullest.memory.peak_bytes);
    if (candidate.choice.offload == Choice::Offload::kNothing)
      corrections_.learn(candidate.choice, candidate.estimate, report.step_seconds,
                         bytes / fullest.device->memory_bytes);
    if (bytes > fullest.device->memory_bytes) {
      ++result_.too_large;
      if (bytes - fullest.device->memory_bytes < simulated_over_) {
        simulated_over_ = bytes - fullest.device->memory_bytes;
        simulated_memory_ = fullest.device->memory_bytes;
        nearest_simulated_ = candidate.choice;
      }
      return;
    }
    insert({candidate.choice, std::move(plan), candidate.estimate, std::move(report)});
  }
  void insert(Found found) {
    const auto place = std::ranges::upper_bound(result_.fitting, found.report.step_seconds, {},
                                                [](const Found& f) { return f.report.step_seconds; });
    result_.fitting.insert(place, std::move(found));
  }

  // The bound, and what is decided beside the search.
  void settle() {
    double least = best_seconds();
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!done_[i]) least = std::min(least, candidates_[i].estimate.least_seconds);
    }
    if (least >= best_seconds()) result_.end = SearchResult::End::kProved;
    result_.least_seconds = std::min(least, best_seconds());
    prefer_few_microbatches();
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
      const auto& [choice, estimate] = candidates_[i];
      if (!done_[i] && corrections_.least_seconds(choice, estimate) <= enough &&
          corrected_fill(candidates_[i]) <= kLikelyToFit)
        open.push_back(i);
    }
    std::ranges::stable_sort(open, {}, [&](size_t i) { return candidates_[i].choice.microbatches; });
    open.resize(std::min<size_t>(open.size(), 2 * kTries));
    for (const size_t i : open) {
      if (candidates_[i].choice.microbatches >= fewest()->choice.microbatches) break;
      if (cut_short() || !simulate_round({i})) break;
    }
    const auto chosen = fewest();
    std::rotate(result_.fitting.begin(), chosen, std::next(chosen));
  }

  // The search proper has default buckets. Of each way to share states the fastest plan is tried with larger
  // ones, since those with the most collectives gain the most; only the best of all with smaller ones, which
  // let sums begin earlier.
  void choose_buckets() {
    std::vector<Found> plans;
    for (const Found& found : result_.fitting) {
      const bool is_first = std::ranges::none_of(
          plans, [&](const Found& other) { return other.choice.sharing == found.choice.sharing; });
      if (is_first && found.choice.data > 1 && found.report.step_seconds < kBucketsGain * best_seconds())
        plans.push_back(found);
    }
    std::vector<Found> faster;
    const auto add = [&](const std::vector<Found>& some) {
      faster.insert(faster.end(), some.begin(), some.end());
    };
    const Found best = result_.best();
    for (const int64_t kib : {kLargeBucketKib, kLargestBucketKib})
      add(plans = faster_with_buckets(plans, kib));
    if (best.choice.data > 1 && faster.empty()) add(faster_with_buckets({best}, kSmallBucketKib));
    const auto fastest =
        std::ranges::min_element(faster, {}, [](const Found& found) { return found.report.step_seconds; });
    if (fastest == faster.end() || !is_faster(*fastest, best)) return;
    result_.fitting.insert(result_.fitting.begin(), *fastest);
    result_.least_seconds = std::min(result_.least_seconds, best_seconds());
  }
  // By more than the model knows.
  static bool is_faster(const Found& one, const Found& other) {
    return one.report.step_seconds * (1 + kEqualTimes) < other.report.step_seconds;
  }

  // Plans with other buckets, of those that fit and are faster so.
  std::vector<Found> faster_with_buckets(const std::vector<Found>& plans, int64_t kib) {
    std::vector<Asked> asked;
    for (const Found& found : plans) {
      Choice choice = found.choice;
      choice.bucket_kib = kib;
      asked.push_back({choice, plan_of(choice, found.estimate.begins)});
    }
    std::vector<std::optional<Simulated>> done = simulate_all(asked);
    std::vector<Found> faster;
    for (size_t i = 0; i < plans.size(); ++i) {
      if (!done[i]) continue;
      ++result_.simulated;
      if (!done[i]->report || !report_fits(*done[i]->report)) continue;
      Found found{asked[i].choice, asked[i].plan, plans[i].estimate, std::move(*done[i]->report)};
      if (is_faster(found, plans[i])) faster.push_back(std::move(found));
    }
    return faster;
  }
  static bool report_fits(const sim::SimReport& report) {
    const sim::RankReport& fullest = report.fullest();
    return static_cast<double>(fullest.memory.peak_bytes) <= fullest.device->memory_bytes;
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
      tried.insert(tried.end(), all.begin(), all.begin() + std::min<int64_t>(std::ssize(all), kTries));
    };
    add_first([](const Candidate& candidate) { return candidate.estimate.seconds; });
    add_first([](const Candidate& candidate) { return candidate.estimate.fill(); });
    for (Candidate& candidate : tried) {
      for (const auto what : {Choice::Offload::kOptimizer, Choice::Offload::kAllStates}) {
        if (cut_short()) return;
        candidate.choice.offload = what;
        if (!goes_with(candidate.choice, subject_.features)) continue;
        Plan plan = plan_of(candidate.choice, candidate.estimate.begins);
        std::optional<Simulated> done = simulate_all({{candidate.choice, plan}})[0];
        if (!done) return;
        const size_t before = result_.fitting.size();
        take(candidate, std::move(plan), std::move(*done));
        if (result_.fitting.size() > before) break;
      }
    }
  }

  [[noreturn]] void refuse_space() const {
    throw_error(
        "no mesh of all {} devices of the cluster '{}' divides the batch of {} rows and the {} parts of this "
        "model; --devices any also searches plans that leave some of them idle, and a batch that is a multiple of "
        "the devices, or other hosts (--hosts), would be divided",
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
    if (was_cut_short_)
      throw Interrupted(
          fmt::format(
              "the search {} before any plan was found to fit: {} of {} plans were estimated, {} of them can "
              "not fit, and {} were simulated",
              context_->limit.is_stopped() ? "was ended" : "had no more time (--seconds)", result_.estimated,
              result_.choices, result_.too_large, result_.simulated),
          context_);
    if (std::isfinite(simulated_over_))
      throw_error(
          "nothing fits: of the {} plans that were simulated, the fastest and the smallest by their "
          "estimates, {} comes nearest, and needs {} more than the {} of a device; {}more devices, a smaller "
          "batch or sequence, or a smaller model are needed",
          result_.simulated, to_string(nearest_simulated_),
          format_bytes(static_cast<size_t>(simulated_over_)),
          format_bytes(static_cast<size_t>(simulated_memory_)),
          is_spent() ? fmt::format("{} others were not tried (--effort); ", std::ranges::count(done_, false))
                     : "");
    if (nearest_ && nearest_->estimate.least_fill() > 1) {
      const Estimate& estimate = nearest_->estimate;
      throw_error(
          "nothing fits: a device has {}, and at least {} are needed, {} too much, even with {}; more "
          "devices, a smaller batch or sequence, or a smaller model are needed",
          format_bytes(static_cast<size_t>(estimate.least_memory_bytes)),
          format_bytes(static_cast<size_t>(estimate.least_bytes)),
          format_bytes(static_cast<size_t>(estimate.least_bytes - estimate.least_memory_bytes)),
          to_string(nearest_->choice));
    }
    throw_error("none of {} plans can work; the last one: {}", result_.choices, why_refused_);
  }

  const SearchOptions& options_;
  const std::shared_ptr<Context> context_;
  const Subject& subject_;
  const Cluster& cluster_;
  std::vector<Candidate> candidates_;           // those that may fit
  std::vector<Candidate> outgrown_candidates_;  // too large, unless states are offloaded
  std::vector<bool> done_;                      // of candidates: simulated, or refused
  std::set<Split> outgrown_;                    // with any rows
  bool all_estimated_ = true, was_cut_short_ = false;
  Corrections corrections_;
  int tried_ = 0;                     // simulations, with those that were refused
  std::optional<Candidate> nearest_;  // to fitting, by its bound
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

// See check.h.
#include "trireme/planner/check.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/base/statistics.h"

namespace trireme::planner {
namespace {

// Rounding of sums that are added up in another order.
constexpr double kRounding = 1e-9;

// Draws without repetition: a mesh, then one of its choices.
class Draw {
 public:
  Draw(std::vector<Choice> choices, uint64_t seed) : key_{seed, stream_id("planner/check")} {
    std::map<std::array<int, 3>, std::vector<Choice>> meshes;
    for (Choice& choice : choices)
      meshes[{choice.data, choice.tensor, choice.pipe}].push_back(std::move(choice));
    for (auto& [mesh, of_mesh] : meshes) meshes_.push_back(std::move(of_mesh));
  }

  std::optional<Choice> next() {
    if (meshes_.empty()) return std::nullopt;
    const size_t mesh = below(meshes_.size());
    std::vector<Choice>& left = meshes_[mesh];
    const size_t one = below(left.size());
    std::swap(left[one], left.back());
    const Choice choice = std::move(left.back());
    left.pop_back();
    if (left.empty()) meshes_.erase(meshes_.begin() + static_cast<int64_t>(mesh));
    return choice;
  }

 private:
  size_t below(size_t count) { return random_words(key_, counter_++)[0] % count; }

  RngKey key_;
  uint64_t counter_ = 0;
  std::vector<std::vector<Choice>> meshes_;
};

struct Drawn {
  Choice choice;
  Plan plan;
  Estimate estimate;
  std::optional<sim::SimReport> report = {};  // none: the plan is refused
};

void simulate_all(const Subject& subject, const Cluster& cluster, const CheckOptions& options,
                  std::vector<Drawn>& drawn) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < drawn.size(); i = next++) {
      if (options.stop && options.stop->load()) return;
      try {
        drawn[i].report = simulate(subject, cluster, drawn[i].choice, drawn[i].plan);
      } catch (const Error&) {  // it is counted
      }
    }
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < options.threads; ++t) others.emplace_back(work);
  work();
}

}  // namespace

CheckReport check_plans(const Subject& subject, const Cluster& cluster, const CheckOptions& options) {
  std::vector<Choice> choices = all_choices(subject, cluster, options.devices);
  std::erase_if(choices, [&](const Choice& choice) { return !fits(choice, options.wish); });
  if (choices.empty()) throw_error("there is no plan of this space to check");
  UnitCosts costs(subject, cluster);
  Estimator estimator(subject, cluster, costs);
  CheckReport report;
  std::vector<Drawn> drawn;
  Draw draw(std::move(choices), options.seed);
  // A plan that its bound calls too large is simulated too, or nobody would see that the bound is wrong; but
  // no more of them than of others.
  int64_t called_too_large = 0;
  while (std::ssize(drawn) < options.plans && !(options.stop && options.stop->load())) {
    const std::optional<Choice> choice = draw.next();
    if (!choice) break;
    if (costs.of(choice->split()).on.empty()) {
      ++report.refused;
      continue;
    }
    Estimate estimate = estimator.of(*choice);
    if (estimate.least_fill() > 1 && 2 * ++called_too_large > options.plans) continue;
    Plan plan = plan_of(*choice, estimate.begins);
    drawn.push_back({*choice, std::move(plan), std::move(estimate)});
  }
  simulate_all(subject, cluster, options, drawn);

  std::vector<double> ratios, tightness;
  for (Drawn& one : drawn) {
    if (!one.report) {
      ++report.refused;
      continue;
    }
    ++report.simulated;
    const double seconds = one.report->step_seconds;
    const sim::RankReport& fullest = one.report->fullest();
    const double bytes = static_cast<double>(fullest.memory.peak_bytes);
    const double fill = bytes / fullest.device->memory_bytes;
    const auto broken = [&](std::string of, double bound, double simulated) {
      report.broken.push_back({one.choice, one.plan, std::move(of), bound, simulated});
    };
    if (one.estimate.least_seconds > seconds * (1 + kRounding))
      broken("seconds", one.estimate.least_seconds, seconds);
    if (one.estimate.least_fill() > fill * (1 + kRounding))
      broken("bytes", one.estimate.least_fill() * fullest.device->memory_bytes, bytes);
    ratios.push_back(seconds / one.estimate.seconds);
    tightness.push_back(one.estimate.least_seconds / seconds);
    if (fill > 1) {
      ++report.too_large;
      continue;
    }
    if (!report.fastest || seconds < report.fastest->report.step_seconds)
      report.fastest =
          Found{one.choice, std::move(one.plan), std::move(one.estimate), std::move(*one.report)};
  }
  if (!ratios.empty()) {
    report.least_ratio = std::ranges::min(ratios);
    report.largest_ratio = std::ranges::max(ratios);
    report.median_ratio = median_of(ratios);
    report.median_tightness = median_of(tightness);
  }
  return report;
}

}  // namespace trireme::planner

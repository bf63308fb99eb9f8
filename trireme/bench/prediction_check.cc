// See prediction_check.h.
#include "trireme/bench/prediction_check.h"

#include <fmt/format.h>

#include <cmath>

#include "trireme/bench/statistics.h"
#include "trireme/comm/calibrate/calibrate.h"
#include "trireme/comm/calibrate/measurement.h"
#include "trireme/comm/collective/choose.h"

namespace trireme::bench {
namespace {

using comm::Algorithm;

constexpr double kClose = 0.2;
constexpr double kGoodChoice = 1.1;

// The median of a / b, turn by turn: what slows the machine down for a while is in both.
double ratio_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median_of(std::move(ratios));
}

// Of each algorithm in a round. How ranks meet stays the same within a turn of short ones, so they get
// several.
int turns_of(size_t bytes) {
  return bytes < size_t{1} << 20 ? 3 : 1;
}

// As a share of what was measured.
double error_of(const CollectiveTime& time) {
  return std::abs(prediction_ratio(time) - 1);
}

std::string point(const CollectiveTime& time) {
  return fmt::format("{} of {} bytes: {:.2f} of what was measured", name(time.asked), time.bytes,
                     prediction_ratio(time));
}

void judge_points(const std::vector<CollectiveTime>& times, PredictionVerdict& verdict) {
  int close = 0, all = 0;
  const CollectiveTime* worst = nullptr;
  for (const CollectiveTime& time : times) {
    if (time.asked == Algorithm::automatic || time.predicted_seconds <= 0) continue;
    ++all;
    close += error_of(time) <= kClose ? 1 : 0;
    if (worst == nullptr || error_of(time) > error_of(*worst)) worst = &time;
  }
  if (worst == nullptr) return;
  verdict.text += fmt::format("{} of {} predictions are within 20% of the median; the farthest off is {}.\n",
                              close, all, point(*worst));
  verdict.good &= close == all;
}

// Two ways whose differences are those of the machine: the same algorithm, or two that come to the same with
// so many ranks (with two, a tree is a parameter server), which the cost model tells to the last digit.
bool run_the_same(const CollectiveTime& a, const CollectiveTime& b) {
  const bool predicted_alike = !a.predictions.empty() && a.predictions == b.predictions;
  return (a.ran == b.ran || predicted_alike) && a.segment_bytes == b.segment_bytes;
}

void judge_choices(const std::vector<CollectiveTime>& times, PredictionVerdict& verdict) {
  double worst = 0;
  std::string text;
  for (const CollectiveTime& time : times) {
    if (time.asked != Algorithm::automatic) continue;
    for (const CollectiveTime& other : times) {
      if (other.bytes != time.bytes || run_the_same(time, other)) continue;
      const double ratio = ratio_of(time.turns, other.turns);
      if (ratio <= worst) continue;
      worst = ratio;
      text = fmt::format("{} bytes, where {} was chosen, against {}", time.bytes, name(time.ran),
                         name(other.asked));
    }
  }
  if (worst == 0) return;
  verdict.text += fmt::format(
      "The automatic choice takes at most {:.2f} times as long as another algorithm ({}).\n", worst, text);
  verdict.good &= worst <= kGoodChoice;
}

}  // namespace

double prediction_ratio(const CollectiveTime& time) {
  if (time.predictions.empty()) return time.predicted_seconds / time.median_seconds;
  const size_t turns = time.turns.size() / (time.predictions.size() - 1);  // in a round
  std::vector<double> ratios;
  for (size_t i = 0; i < time.turns.size(); ++i) {
    for (const size_t link : {i / turns, i / turns + 1})
      ratios.push_back(time.predictions[link] / time.turns[i]);
  }
  return median_of(std::move(ratios));
}

std::vector<CollectiveTime> check_predictions(comm::Context& context, comm::Group& group,
                                              const CollectiveQuestion& question, int rounds) {
  comm::Measurement measurement(context, {.thoroughness = comm::Thoroughness::full,
                                          .memory = question.memory,
                                          .collective = question.collective});
  measurement.warm_up();
  std::vector<SizeTiming> sizes;
  for (const size_t bytes : question.sizes) {
    sizes.emplace_back(context, group, question, bytes, question.seconds / (rounds * turns_of(bytes)));
  }
  std::vector<comm::LinkModel> links;  // before the first round, and after each
  const auto measure_links = [&] {
    const comm::LinkModel pass = measurement.pass();
    links.push_back(comm::combine_links(context, {&pass, 1}));
  };
  measure_links();
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (int turn = 0; turn < turns_of(question.sizes[i]); ++turn) sizes[i].take_turns();
    }
    measure_links();
  }
  std::vector<CollectiveTime> all;
  for (const SizeTiming& size : sizes) {
    for (CollectiveTime& time : size.times()) {
      const comm::Call call{.collective = question.collective,
                            .algorithm = time.ran,
                            .dtype = question.dtype,
                            .count = static_cast<int64_t>(time.bytes / size_of(question.dtype))};
      for (const comm::LinkModel& model : links) {
        time.predictions.push_back(
            comm::predict_call(call, time.segment_bytes, context.ranks(), context.hosts(), model));
      }
      time.predicted_seconds = median_of(time.predictions);
      all.push_back(time);
    }
  }
  return all;
}

PredictionVerdict judge_predictions(const std::vector<CollectiveTime>& times) {
  PredictionVerdict verdict;
  judge_points(times, verdict);
  judge_choices(times, verdict);
  return verdict;
}

}  // namespace trireme::bench

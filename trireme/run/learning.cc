// See learning.h.
#include "trireme/run/learning.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// A run with what every step has seen before its end.
struct Course {
  std::vector<double> steps, losses;  // losses as means over windows that end there
  std::vector<double> seconds, records;
  size_t window = 1;

  size_t first() const { return window - 1; }  // the first full window
};

Course course_of(std::span<const LearningStep> steps) {
  Course course;
  double seconds = 0, records = 0;
  std::vector<double> losses;
  for (const LearningStep& step : steps) {
    seconds += step.seconds;
    records += step.records;
    if (!std::isfinite(step.loss)) continue;
    losses.push_back(step.loss);
    course.steps.push_back(step.step);
    course.seconds.push_back(seconds);
    course.records.push_back(records);
  }
  if (losses.size() < 2)
    throw_error("{} steps with a finite loss found; two at least are needed to tell what was learned",
                losses.size());
  course.window = std::max<size_t>(1, losses.size() / 20);
  double sum = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    sum += losses[i];
    if (i >= course.window) sum -= losses[i - course.window];
    course.losses.push_back(sum / static_cast<double>(std::min(i + 1, course.window)));
  }
  return course;
}

Learning between(const Course& course, size_t begin, size_t end) {
  return {course.losses[begin], course.losses[end], course.records[end] - course.records[begin],
          course.seconds[end] - course.seconds[begin]};
}

}  // namespace

Learning learning_of(std::span<const LearningStep> steps) {
  return learning_by_part(steps, 1).front();
}

std::vector<Learning> learning_by_part(std::span<const LearningStep> steps, int parts) {
  const Course course = course_of(steps);
  const size_t first = course.first(), length = course.losses.size() - 1 - first;
  const size_t count =
      std::clamp<size_t>(static_cast<size_t>(std::max(1, parts)), 1, std::max<size_t>(1, length));
  std::vector<Learning> result;
  for (size_t part = 0; part < count; ++part)
    result.push_back(between(course, first + length * part / count, first + length * (part + 1) / count));
  return result;
}

std::optional<Reached> reached(std::span<const LearningStep> steps, double target) {
  const Course course = course_of(steps);
  for (size_t i = course.first(); i < course.losses.size(); ++i) {
    if (course.losses[i] <= target) return Reached{course.steps[i], course.seconds[i], course.records[i]};
  }
  return std::nullopt;
}

SampleSpread spread_of(std::span<const double> values) {
  TRIREME_CHECK(!values.empty());
  SampleSpread spread;
  spread.runs = static_cast<int>(values.size());
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / spread.runs;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = spread.runs > 1 ? std::sqrt(squares / (spread.runs - 1)) : 0;
  spread.least = *std::ranges::min_element(values);
  spread.most = *std::ranges::max_element(values);
  return spread;
}

}  // namespace trireme

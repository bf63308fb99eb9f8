// See judge.h.
#include "trireme/train/parity/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::parity {
namespace {

// Times what a few samples of noise explain; more samples would not explain it either. In f16, where batch
// norms of a few rows blow rounding up, they did explain 20 times as much.
constexpr double kNoDoubt = 256;

// "[3, 17]"
std::string place(const Shape& shape, int64_t element) {
  std::vector<int64_t> coordinates(shape.rank());
  for (int d = shape.rank() - 1; d >= 0; --d) {
    coordinates[d] = element % shape[d];
    element /= shape[d];
  }
  return to_string(Shape(coordinates));
}

}  // namespace

std::string_view name(Verdict verdict) {
  constexpr std::string_view names[] = {"equal", "rounding", "bug", "refused"};
  return names[static_cast<int>(verdict)];
}

void Judge::bug(std::string reason) {
  if (!is_bug()) result.reason = std::move(reason);
  raise(Verdict::kBug);
}

void Judge::compare(const std::string& when, const std::vector<std::string>& names, const States& expected,
                    const States& found, const std::function<Bounds(Samples)>& bounds_of) {
  std::vector<Difference> differences;
  for (const Samples samples : {Samples::kFew, Samples::kMany}) {
    const Bounds bounds = bounds_of(samples);
    differences.clear();
    for (const std::string& name : names)
      differences.push_back(difference(expected.at(name), found.at(name), bounds.at(name)));
    double worst = 0;
    // Where the samples moved nothing at all, the next ones may: a ReLU that lets one more value through.
    for (const Difference& one : differences)
      worst = std::max(worst, one.bound > 0 ? one.share : std::min(one.share, kNoDoubt));
    if (worst <= 1 || worst > kNoDoubt) break;
  }
  for (size_t i = 0; i < names.size(); ++i)
    note(when, names[i], expected.at(names[i]), found.at(names[i]), differences[i]);
}

Judge::Difference Judge::difference(const std::vector<float>& expected, const std::vector<float>& found,
                                    const std::vector<float>& bounds) {
  Difference worst;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (same(expected[i], found[i]) || expected[i] == found[i]) continue;
    const double off = std::abs(static_cast<double>(expected[i]) - static_cast<double>(found[i]));
    const double bound = static_cast<double>(bounds[i]);
    double share = std::numeric_limits<double>::infinity();
    if (std::isinf(bound))
      share = 0;
    else if (std::isfinite(off) && bound > 0)
      share = off / bound;
    if (share > 1) ++worst.beyond;
    if (share > worst.share) worst = {share, bound, static_cast<int64_t>(i), worst.beyond};
  }
  return worst;
}

void Judge::note(const std::string& when, const std::string& tensor, const std::vector<float>& expected,
                 const std::vector<float>& found, const Difference& worst) {
  ++result.tensors;
  if (worst.share > result.worst) {
    result.worst = worst.share;
    result.worst_tensor = fmt::format("{} ({})", tensor, when);
  }
  if (worst.beyond == 0) return;
  const State* slot = program_.find_state(tensor);
  const float here = found[worst.element], there = expected[worst.element];
  bug(fmt::format(
      "{}: {} is {:.9g} at {} where one rank has {:.9g}; off by {:.3g}, and rounding explains {:.3g}; "
      "{} of {} elements are off",
      when, tensor, here, place(slot ? slot->part.whole : Shape{}, worst.element), there,
      std::abs(static_cast<double>(here) - static_cast<double>(there)), worst.bound, worst.beyond,
      expected.size()));
}

Result both_widths(Result as_it_is, const Result& widened) {
  as_it_is.tensors += widened.tensors;
  if (widened.worst > as_it_is.worst) {
    as_it_is.worst = widened.worst;
    as_it_is.worst_tensor = "widened to f32, " + widened.worst_tensor;
  }
  if (widened.verdict == Verdict::kBug) {
    as_it_is.verdict = Verdict::kBug;
    as_it_is.reason = "widened to f32, " + widened.reason;
  }
  return as_it_is;
}

}  // namespace trireme::parity

// See combine.h.
#include "trireme/comm/calibrate/combine.h"

#include <algorithm>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

// `field` gives one figure or one curve of a model.
template <typename Field>
double median_number(std::span<const LinkModel> models, const Field& field) {
  std::vector<double> values;
  for (const LinkModel& model : models) values.push_back(field(model));
  const size_t middle = (values.size() - 1) / 2;  // of two the shorter: what disturbs only adds
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(middle));
  return values[middle];
}

template <typename Field>
Curve median_curve(std::span<const LinkModel> models, const Field& field) {
  std::vector<CurvePoint> points = field(models[0]).points();
  for (size_t i = 0; i < points.size(); ++i) {
    points[i].seconds =
        median_number(models, [&](const LinkModel& model) { return field(model).points()[i].seconds; });
  }
  return points.empty() ? Curve() : Curve(std::move(points));
}

// What is longer takes no less time, so a figure above that of a longer one was disturbed.
Curve rising(const Curve& curve) {
  std::vector<CurvePoint> points = curve.points();
  for (size_t i = points.size(); i-- > 1;) {
    points[i - 1].seconds = std::min(points[i - 1].seconds, points[i].seconds);
  }
  return points.empty() ? Curve() : Curve(std::move(points));
}

}  // namespace

LinkModel median_of(std::span<const LinkModel> models) {
  TRIREME_CHECK(!models.empty());
  LinkModel result = models[0];
  result.operation_seconds =
      median_number(models, [](const LinkModel& model) { return model.operation_seconds; });
  const auto take = [&](Curve& into, const auto& field) { into = median_curve(models, field); };
  const auto take_rising = [&](Curve& into, const auto& field) {
    into = rising(median_curve(models, field));
  };
  take_rising(result.inside.message, [](const LinkModel& m) -> const Curve& { return m.inside.message; });
  take_rising(result.inside.gap, [](const LinkModel& m) -> const Curve& { return m.inside.gap; });
  take_rising(result.inside.exchange, [](const LinkModel& m) -> const Curve& { return m.inside.exchange; });
  take_rising(result.across.message, [](const LinkModel& m) -> const Curve& { return m.across.message; });
  take_rising(result.across.gap, [](const LinkModel& m) -> const Curve& { return m.across.gap; });
  take_rising(result.vectors.exchange, [](const LinkModel& m) -> const Curve& { return m.vectors.exchange; });
  take_rising(result.vectors.add, [](const LinkModel& m) -> const Curve& { return m.vectors.add; });
  // These are differences.
  take(result.reduce, [](const LinkModel& m) -> const Curve& { return m.reduce; });
  take(result.add, [](const LinkModel& m) -> const Curve& { return m.add; });
  take(result.vectors.message, [](const LinkModel& m) -> const Curve& { return m.vectors.message; });
  take(result.vectors.reduce, [](const LinkModel& m) -> const Curve& { return m.vectors.reduce; });
  take(result.vectors.hand_on, [](const LinkModel& m) -> const Curve& { return m.vectors.hand_on; });
  for (auto& [collective, operations] : result.timed) {
    for (auto& [algorithm, curve] : operations) {
      // A structured binding may not be captured by reference in C++20 as every compiler has it.
      take(curve, [&c = collective, &a = algorithm](const LinkModel& m) -> const Curve& {
        return m.timed.at(c).at(a);
      });
    }
  }
  return result;
}

}  // namespace trireme::comm

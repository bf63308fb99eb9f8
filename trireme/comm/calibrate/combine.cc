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
  result.operation_seconds = median_number(models, [](const LinkModel& m) { return m.operation_seconds; });
  result.switch_seconds = median_number(models, [](const LinkModel& m) { return m.switch_seconds; });
  for (LinkCurves LinkModel::*link : {&LinkModel::inside, &LinkModel::same_core, &LinkModel::across}) {
    for (Curve LinkCurves::*curve : {&LinkCurves::message, &LinkCurves::gap, &LinkCurves::exchange,
                                     &LinkCurves::exchange_vectors, &LinkCurves::add_vectors}) {
      result.*link.*curve =
          rising(median_curve(models, [&](const LinkModel& m) -> const Curve& { return m.*link.*curve; }));
    }
    // Differences do not have to rise.
    (result.*link).add =
        median_curve(models, [&](const LinkModel& m) -> const Curve& { return (m.*link).add; });
  }
  for (Curve LinkModel::*curve : {&LinkModel::reduce, &LinkModel::reduce_vectors}) {
    result.*curve = median_curve(models, [&](const LinkModel& m) -> const Curve& { return m.*curve; });
  }
  for (auto& [collective, curve] : result.native) {
    // A structured binding may not be captured by reference in C++20 as every compiler has it.
    curve = median_curve(
        models, [&key = collective](const LinkModel& m) -> const Curve& { return m.native.at(key); });
  }
  return result;
}

}  // namespace trireme::comm

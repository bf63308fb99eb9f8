// See curvature.h.
#include "trireme/train/curvature.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/train/bad_numbers.h"

namespace trireme {
namespace {

double dot_of(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double length_of(const std::vector<double>& a) {
  return std::sqrt(dot_of(a, a));
}

// Of length 1. Returns the length it had; one of length 0 stays.
double normalise(std::vector<double>& a) {
  const double length = length_of(a);
  if (length > 0) {
    for (double& x : a) x /= length;
  }
  return length;
}

std::vector<double> first_direction(size_t size, uint64_t seed) {
  std::vector<double> direction(size);
  for (size_t i = 0; i < size; ++i) direction[i] = normal({seed, stream_id("curvature")}, i);
  normalise(direction);
  return direction;
}

// H times a direction.
struct HessianProduct {
  std::vector<double> along;  // the direction that was taken, of length 1
  std::vector<double> of;     // H times it
  double curvature = 0;       // vᵀHv
};

class CurvatureSearch {
 public:
  CurvatureSearch(const GradientAt& gradient, std::span<const float> weights, const CurvatureOptions& options)
      : gradient_(gradient), weights_(weights), options_(options) {
    double squares = 0;
    for (const float weight : weights) squares += static_cast<double>(weight) * weight;
    scale_ = squares > 0 ? std::sqrt(squares) : 1;
  }

  Curvature find() {
    Curvature result;
    result.direction = first_direction(weights_.size(), options_.seed);
    // The step is measured along a direction that already leans towards the one that is looked for.
    constexpr int kBefore = 3;
    step_ = options_.step > 0 ? options_.step : scale_ * kFirstStep;
    if (options_.step == 0) {
      for (int i = 0; i < kBefore; ++i) {
        HessianProduct product = multiply(result.direction, step_);
        if (normalise(product.of) == 0) break;
        result.direction = std::move(product.of);
      }
      result.step_error = measure_step(result.direction);
    }
    result.step = step_;
    iterate(0, result);
    if (result.eigenvalue >= 0) return result;
    result.most_negative = result.eigenvalue;
    result.direction = first_direction(weights_.size(), options_.seed + 1);
    iterate(result.eigenvalue, result);
    return result;
  }

 private:
  // The cube root of the distance of f32 numbers: where both errors are alike for a loss whose derivatives
  // are all of one size.
  static constexpr double kFirstStep = 0x1p-8;

  HessianProduct multiply(const std::vector<double>& direction, double step) const {
    const size_t size = weights_.size();
    std::vector<float> above(size), below(size);
    for (size_t i = 0; i < size; ++i) {
      above[i] = static_cast<float>(weights_[i] + step * direction[i]);
      below[i] = static_cast<float>(weights_[i] - step * direction[i]);
    }
    HessianProduct result{std::vector<double>(size), checked_gradient(above)};
    const std::vector<double> other = checked_gradient(below);
    for (size_t i = 0; i < size; ++i) {
      result.along[i] = static_cast<double>(above[i]) - below[i];
      result.of[i] -= other[i];
    }
    const double length = normalise(result.along);
    if (length == 0)
      throw_error(
          "a step of {:g} changes no weight: it is below what f32 can tell apart beside weights of size {:g}; "
          "give a larger step",
          step, scale_);
    for (double& x : result.of) x /= length;
    result.curvature = dot_of(result.along, result.of);
    return result;
  }

  std::vector<double> checked_gradient(std::span<const float> weights) const {
    std::vector<double> result = gradient_(weights);
    TRIREME_CHECK(result.size() == weights.size());
    if (!std::ranges::all_of(result, [](double x) { return std::isfinite(x); }))
      throw BadNumbers(BadNumbers::Kind::kNotFinite,
                       "a gradient near the solution is not finite, so that the loss has no curvature there; "
                       "was the run stable?");
    return result;
  }

  // Steps below are mostly rounding and, in networks with kinks (ReLU), single kinks.
  //
  // Sets the step; returns by what share it differs from a neighbour at most. Three agree by chance less
  // often than two do, where curvature over step crosses from one side of the truth to the other.
  double measure_step(const std::vector<double>& direction) {
    constexpr int kSteps = 6;
    constexpr double kRatio = 4;
    std::array<double, kSteps> steps{}, found{};
    double step = scale_;
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i] = step /= kRatio;
      found[i] = multiply(direction, step).curvature;
    }
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 1; i + 1 < steps.size(); ++i) {
      const double size = std::max({std::abs(found[i - 1]), std::abs(found[i]), std::abs(found[i + 1])});
      const double differs = std::max(std::abs(found[i] - found[i - 1]), std::abs(found[i] - found[i + 1]));
      const double share = size > 0 ? differs / size : 0;
      if (share >= least) continue;
      least = share;
      step_ = steps[i];
    }
    return least;
  }

  // How far the value will still go, after changes that shrink by the same factor each time: where two
  // eigenvalues are close, that is a hundred times the last change. Changes that alternate are rounding, or
  // kinks of the loss, and lead nowhere.
  static double what_is_left(double change, double change_before) {
    const double size = std::abs(change), size_before = std::abs(change_before);
    if (change * change_before <= 0) return size;
    if (size >= size_before) return std::numeric_limits<double>::infinity();
    return std::max(size, size * size / (size_before - size));
  }

  // Power iteration with H − shift, from result.direction on.
  void iterate(double shift, Curvature& result) {
    constexpr int kCalm = 2;
    result.converged = false;
    double before = std::numeric_limits<double>::infinity(), change_before = 0;
    std::vector<double> next = result.direction;
    for (int i = 0, calm = 0; i < options_.most_iterations && calm < kCalm; ++i) {
      HessianProduct product = multiply(next, step_);
      const double value = product.curvature;
      result.eigenvalue = value;
      result.iterations.push_back(value);
      if (options_.on_iteration) options_.on_iteration(static_cast<int>(result.iterations.size()), value);
      const double change = value - before;
      calm = what_is_left(change, change_before) <= options_.tolerance * std::abs(value) ? calm + 1 : 0;
      result.converged = calm == kCalm;
      before = value;
      change_before = change;
      // H is moved up by a quarter of |Hv|: an eigenvalue below zero of about the size of the largest one
      // would have v alternate between two directions.
      const double moved = shift < 0 ? shift : -length_of(product.of) / 4;
      double squares = 0;
      for (size_t k = 0; k < product.of.size(); ++k) {
        const double off = product.of[k] - value * product.along[k];
        squares += off * off;
        product.of[k] -= moved * product.along[k];
      }
      result.residual = value != 0 ? std::sqrt(squares) / std::abs(value) : 0;
      result.direction = std::move(product.along);
      next = std::move(product.of);
      if (normalise(next) == 0) {  // nothing is left of a direction that was random: there is no curvature
        result.converged = true;
        return;
      }
    }
  }

  const GradientAt& gradient_;
  std::span<const float> weights_;
  const CurvatureOptions& options_;
  double scale_ = 1;  // |w|
  double step_ = 0;
};

}  // namespace

void CurvatureOptions::validate() const {
  if (most_iterations < 1) throw_error("{} iterations were asked for, 1 or more expected", most_iterations);
  if (!(tolerance > 0 && tolerance < 1))
    throw_error("the tolerance is {}, expected above 0 and below 1", tolerance);
  if (!(step >= 0) || !std::isfinite(step))
    throw_error("the step is {}, expected above 0, or 0 to measure it", step);
}

Curvature largest_curvature(const GradientAt& gradient, std::span<const float> weights,
                            const CurvatureOptions& options) {
  options.validate();
  if (weights.empty()) throw_error("there are no weights that the loss could be curved along");
  return CurvatureSearch(gradient, weights, options).find();
}

}  // namespace trireme

// The largest eigenvalue of the Hessian H of a loss, by power iteration. H itself is never there: its product
// with a direction v is the difference of two gradients,
//
//   H v ≈ (∇L(w + h v) − ∇L(w − h v)) / 2h
//
// Weights and gradients are f32, so h has a best size. What the difference leaves out grows with h², and the
// rounding of the gradients, divided by 2h, with 1/h. h is therefore measured: the curvature along one
// direction is taken with six steps from a quarter of |w| down, each a quarter of the one before, and h is the
// one that agrees best with both its neighbours. w ± h v is rounded to f32 too, but that costs nothing: the
// direction is taken to be the difference of the two rounded weights, which is exact. Sums are double.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace trireme {

// The gradient of a loss at these weights. The same weights always give the same gradient.
using GradientAt = std::function<std::vector<double>(std::span<const float> weights)>;

struct CurvatureOptions {
  int most_iterations = 500;
  // Ends when the eigenvalue will change by less than this share, as the last changes tell, twice in a row.
  double tolerance = 1e-3;
  uint64_t seed = 1;  // of the first direction
  double step = 0;    // h, for a direction of length 1; 0: measured
  // Called after each iteration, counted from 1.
  std::function<void(int iteration, double eigenvalue)> on_iteration = nullptr;

  void validate() const;  // throws Error
};

struct Curvature {
  double eigenvalue = 0;  // the largest: vᵀHv of the last direction
  // |Hv − λv| / |λ|. Some eigenvalue is that close to λ; and λ is closer still to the one that v points to.
  double residual = 0;
  bool converged = false;
  std::vector<double> iterations;  // vᵀHv after each
  double step = 0;                 // h
  // By what share vᵀHv differs with a step four times as large or as small, at most; 0 where h was given.
  double step_error = 0;
  // Power iteration finds the eigenvalue of the largest magnitude. Where that is negative, it stands here,
  // and the largest one was found by a second iteration, with H moved up by it.
  std::optional<double> most_negative;
  std::vector<double> direction;  // v, of length 1
};

// Throws BadNumbers where a gradient is not finite.
Curvature largest_curvature(const GradientAt& gradient, std::span<const float> weights,
                            const CurvatureOptions& options = {});

}  // namespace trireme

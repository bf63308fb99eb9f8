// AdamW without decay, written out in double precision for one tensor.
#pragma once

#include <cmath>
#include <vector>

#include "trireme/optim/options.h"

namespace trireme::testing {

class WrittenOutAdam {
 public:
  explicit WrittenOutAdam(const OptimOptions& options) : options_(options) {}

  // What the weights change by, of the next step.
  std::vector<double> change(const std::vector<double>& gradient, double rate) {
    first_.resize(gradient.size());
    second_.resize(gradient.size());
    ++step_;
    const double of_first = 1 - std::pow(options_.beta1, step_),
                 of_second = 1 - std::pow(options_.beta2, step_);
    std::vector<double> result(gradient.size());
    for (size_t i = 0; i < gradient.size(); ++i) {
      first_[i] += (1 - options_.beta1) * (gradient[i] - first_[i]);
      second_[i] += (1 - options_.beta2) * (gradient[i] * gradient[i] - second_[i]);
      result[i] = -rate * (first_[i] / of_first) / (std::sqrt(second_[i] / of_second) + options_.eps);
    }
    return result;
  }

 private:
  const OptimOptions options_;
  std::vector<double> first_, second_;
  int step_ = 0;
};

}  // namespace trireme::testing

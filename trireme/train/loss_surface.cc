// See loss_surface.h.
#include "trireme/train/loss_surface.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/ir/trained.h"
#include "trireme/optim/update.h"
#include "trireme/train/tensor_access.h"

namespace trireme {

LossSurface::LossSurface(Trainer& trainer, std::span<Batch> batches) : trainer_(trainer), batches_(batches) {
  if (batches.empty()) throw_error("there are no batches to take a loss of");
  const Program& program = trainer.program();
  for (const State& state : program.states) {
    if (state.role != Role::kParameter && state.role != Role::kBuffer) continue;
    kept_.push_back(state.name);
    if (state.role == Role::kParameter && !is_frozen(state.role, state.attrs)) trained_.push_back(state.name);
    if (state.role == Role::kBuffer && program.find_state(pending_name(state.name)))
      renewed_.push_back(state.name);
  }
}

ModelStates LossSurface::states() {
  ModelStates result;
  for (const std::string& name : kept_) result.emplace_back(name, read_tensor(trainer_, name));
  return result;
}

void LossSurface::set_states(const ModelStates& states) {
  for (const auto& [name, values] : states) write_tensor(trainer_, name, values);
}

std::vector<float> LossSurface::weights() {
  std::vector<float> result;
  for (const std::string& name : trained_) {
    const std::vector<float> values = read_tensor(trainer_, name);
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

LossSurface::Slope LossSurface::slope(std::span<const float> weights) {
  size_t begin = 0;
  for (const std::string& name : trained_) {
    const auto count = static_cast<size_t>(trainer_.program().find_state(name)->type.shape.elements());
    TRIREME_CHECK(begin + count <= weights.size());
    write_tensor(trainer_, name, weights.subspan(begin, count));
    begin += count;
  }
  TRIREME_CHECK(begin == weights.size());
  Slope result{0, std::vector<double>(weights.size())};
  double targets = 0;
  for (Batch& batch : batches_) {
    trainer_.forward_backward(batch, 0);
    const double counted = read_tensor(trainer_, kCountState)[0];
    result.loss += read_tensor(trainer_, kLossState)[0];
    targets += counted;
    size_t place = 0;
    for (const std::string& name : trained_) {
      for (const float value : read_gradient(trainer_, name)) result.gradient[place++] += counted * value;
    }
  }
  result.loss /= std::max(1.0, targets);
  for (double& value : result.gradient) value /= std::max(1.0, targets);
  return result;
}

void LossSurface::set_between(const ModelStates& first, const ModelStates& second, double a) {
  TRIREME_CHECK(first.size() == second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    const auto& [name, from] = first[i];
    const std::vector<float>& to = second[i].second;
    TRIREME_CHECK(name == second[i].first);
    TRIREME_CHECK(from.size() == to.size());
    std::vector<float> values(from.size());
    for (size_t k = 0; k < values.size(); ++k)
      values[k] = static_cast<float>(from[k] + a * (static_cast<double>(to[k]) - from[k]));
    write_tensor(trainer_, name, values);
  }
  if (!renewed_.empty()) estimate_statistics();
}

// A forward pass makes r' = k r + (1 − k) s of a buffer r, where s is the statistic of its batch. Which k,
// only the model knows: from r = 0 and r = 1 on the same batch both follow. The buffer becomes the mean of s.
void LossSurface::estimate_statistics() {
  const auto renewed = [&](float start, Batch& batch) {
    for (const std::string& name : renewed_)
      write_tensor(
          trainer_, name,
          std::vector<float>(static_cast<size_t>(trainer_.program().find_state(name)->type.shape.elements()),
                             start));
    trainer_.forward_backward(batch, 0);
    std::vector<std::vector<float>> result;
    for (const std::string& name : renewed_) result.push_back(read_tensor(trainer_, pending_name(name)));
    return result;
  };
  const std::vector<std::vector<float>> from_one = renewed(1, batches_[0]),
                                        from_zero = renewed(0, batches_[0]);
  std::vector<std::vector<double>> sums;
  for (const std::vector<float>& values : from_zero) sums.emplace_back(values.begin(), values.end());
  for (Batch& batch : batches_.subspan(1)) {
    const std::vector<std::vector<float>> more = renewed(0, batch);
    for (size_t i = 0; i < sums.size(); ++i) {
      for (size_t k = 0; k < sums[i].size(); ++k) sums[i][k] += more[i][k];
    }
  }
  for (size_t i = 0; i < renewed_.size(); ++i) {
    std::vector<float> values(sums[i].size());
    for (size_t k = 0; k < values.size(); ++k) {
      const double share = 1 - (static_cast<double>(from_one[i][k]) - from_zero[i][k]);
      values[k] = static_cast<float>(sums[i][k] / (share * static_cast<double>(batches_.size())));
    }
    write_tensor(trainer_, renewed_[i], values);
  }
}

Evaluation LossSurface::evaluate(std::span<Batch> batches) {
  Evaluation total;
  for (Batch& batch : batches) trainer_.evaluate(batch, total);
  return total;
}

}  // namespace trireme

// See agreed.h.
#include "trireme/train/parity/agreed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/exchange/gossip.h"

namespace trireme::parity {
namespace {

using Way = ExchangeKind::Of;

constexpr double kUnit = 0x1p-22;  // two units in the last place of f32

GossipGraph graph_of(const Agreement& how) {
  return gossip_graph(how.settings().word("graph"));
}

}  // namespace

Estimate::Estimate(const std::vector<float>& exact)
    : values(exact.begin(), exact.end()), bounds(exact.size(), 0) {}
Estimate::Estimate(const std::vector<float>& numbers, const std::vector<float>& off)
    : values(numbers.begin(), numbers.end()), bounds(off.begin(), off.end()) {}

Estimate Estimate::zeros(size_t size) {
  return Estimate(std::vector<float>(size, 0));
}

void Estimate::add(double factor, const Estimate& other) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] += factor * other.values[i];
    bounds[i] += std::abs(factor) * other.bounds[i] +
                 kUnit * (std::abs(factor * other.values[i]) + std::abs(values[i]));
  }
}

Shares::Shares(const Agreement& how, size_t ranks)
    : how_(how), counted_(ranks), clients_(static_cast<int64_t>(ranks)), drawn_(clients_) {
  if (how.way() == Way::kWeightedMeans) {
    if (how.settings().whole("clients") > 0) clients_ = how.settings().whole("clients");
    drawn_ = std::clamp<int64_t>(
        std::llround(how.settings().real("fraction") * static_cast<double>(clients_)), 1, clients_);
  }
  turns_ = (drawn_ + static_cast<int64_t>(ranks) - 1) / static_cast<int64_t>(ranks);
}

bool Shares::trains(size_t rank) const {
  const auto ranks = static_cast<int64_t>(counted_.size());
  return turn_ % turns_ * ranks + static_cast<int64_t>(rank) < drawn_;
}

void Shares::count(const std::vector<double>& targets) {
  for (size_t r = 0; r < counted_.size(); ++r) counted_[r] += targets[r];
}

double Shares::all() const {
  // So that shares are equal where nobody has counted anything.
  double sum = finished_;
  for (const double counted : counted_) sum += counted + 1e-30;
  return sum;
}

std::vector<double> Shares::now() const {
  std::vector<double> shares(counted_.size(), 1.0 / static_cast<double>(counted_.size()));
  if (how_.way() != Way::kWeightedMeans) return shares;
  for (size_t r = 0; r < shares.size(); ++r) shares[r] = (counted_[r] + 1e-30) / all();
  return shares;
}

void Shares::end_step(int64_t steps) {
  if (how_.way() != Way::kWeightedMeans || steps % how_.period() != 0) return;
  for (double& counted : counted_) finished_ += std::exchange(counted, 0);
  if (++turn_ % turns_ == 0) finished_ = 0;
}

Estimate mean_of(const OfRanks& of, const std::vector<double>& shares) {
  Estimate mean = Estimate::zeros(of[0].values.size());
  for (size_t r = 0; r < of.size(); ++r) mean.add(shares[r], of[r]);
  return mean;
}

AgreedState::AgreedState(const Agreement& how, Role role, const Estimate& start, size_t ranks)
    : how_(how),
      role_(role),
      ranks_(ranks),
      anchor_(start),
      velocity_(Estimate::zeros(start.values.size())),
      finished_(velocity_),
      changed_(ranks, velocity_) {}

OfRanks AgreedState::after(int64_t step, const OfRanks& before, const OfRanks& own, const Shares& shares) {
  if (role_ == Role::kOptimizer) return own;
  switch (how_.way()) {
    case Way::kMeans:
    case Way::kWeightedMeans:
    case Way::kOuterSteps:
      return step % how_.period() == 0 ? averaged(step, own, shares) : own;
    case Way::kLateMeans:
      return role_ == Role::kBuffer ? own : delayed(step, before, own);
    case Way::kNeighbours:
      return mixed(before, own);
    case Way::kPushes:
      return pushed(step, before, own);
    case Way::kPairs:
      return paired(own);
    case Way::kGradients:
    case Way::kClocks:
    case Way::kArrivals:
      break;  // ranks have no weights of their own
  }
  return own;
}

Estimate AgreedState::met(const OfRanks& own, const Shares& shares) const {
  Estimate mean = mean_of(own, shares.now());
  if (shares.turns() > 1) mean.add(1 / shares.all(), finished_);
  return mean;
}

OfRanks AgreedState::averaged(int64_t step, const OfRanks& own, const Shares& shares) {
  if (step % (how_.period() * shares.turns()) != 0) {  // the next client starts where the round has
    for (size_t r = 0; r < ranks_; ++r) finished_.add(shares.counted()[r], own[r]);
    return OfRanks(ranks_, anchor_);
  }
  const Estimate met = this->met(own, shares);
  finished_ = Estimate::zeros(met.values.size());
  if (shares.turns() > 1) anchor_ = met;
  if (how_.way() != Way::kOuterSteps || role_ == Role::kBuffer) return OfRanks(ranks_, met);
  const double rate = how_.settings().real("outer_rate"), momentum = how_.settings().real("outer_momentum");
  Estimate difference = anchor_;
  difference.add(-1, met);
  Estimate faster = difference;
  faster.add(momentum, velocity_);
  velocity_ = faster;
  anchor_.add(-rate, difference);
  anchor_.add(-rate * momentum, velocity_);
  return OfRanks(ranks_, anchor_);
}

OfRanks AgreedState::delayed(int64_t step, const OfRanks& before, const OfRanks& own) {
  const bool corrects = how_.settings().whole("correction") != 0;
  OfRanks result = corrects ? own : before;
  for (size_t r = 0; r < ranks_; ++r) {
    changed_[r].add(1, own[r]);
    changed_[r].add(-1, before[r]);
  }
  if (step % how_.period() == 0) {
    sent_[step + how_.delay()] = changed_;
    std::ranges::fill(changed_, Estimate::zeros(own[0].values.size()));
  }
  const auto due = sent_.find(step);
  if (due == sent_.end()) return result;
  const Estimate arrived =
      mean_of(due->second, std::vector<double>(ranks_, 1.0 / static_cast<double>(ranks_)));
  for (size_t r = 0; r < ranks_; ++r) {
    result[r].add(1, arrived);
    if (corrects) result[r].add(-1, due->second[r]);
  }
  sent_.erase(due);
  return result;
}

// The step is made on the mean of the neighbourhood; of a buffer, the mean is of what steps have made.
OfRanks AgreedState::mixed(const OfRanks& before, const OfRanks& own) const {
  const bool is_buffer = role_ == Role::kBuffer;
  const OfRanks& shared = is_buffer ? own : before;
  OfRanks result;
  for (size_t r = 0; r < ranks_; ++r) {
    std::vector<int> around = neighbours(graph_of(how_), static_cast<int>(ranks_), static_cast<int>(r));
    around.push_back(static_cast<int>(r));
    Estimate mine = Estimate::zeros(own[r].values.size());
    for (const int other : around)
      mine.add(1.0 / static_cast<double>(around.size()), shared[static_cast<size_t>(other)]);
    if (!is_buffer) {
      mine.add(1, own[r]);
      mine.add(-1, before[r]);
    }
    result.push_back(std::move(mine));
  }
  return result;
}

// Each pushes to one and hears of one, so that the weights of what they have stay 1.
OfRanks AgreedState::pushed(int64_t step, const OfRanks&, const OfRanks& own) const {
  const std::vector<int> distances = push_distances(graph_of(how_), static_cast<int>(ranks_));
  const auto distance = static_cast<size_t>(distances[static_cast<size_t>(step - 1) % distances.size()]);
  OfRanks result;
  for (size_t r = 0; r < ranks_; ++r) {
    Estimate mine = Estimate::zeros(own[r].values.size());
    mine.add(0.5, own[r]);
    mine.add(0.5, own[(r + ranks_ - distance) % ranks_]);
    result.push_back(std::move(mine));
  }
  return result;
}

// In lockstep, some pairs meet behind every step.
OfRanks AgreedState::paired(const OfRanks& own) const {
  OfRanks result = own;
  for (const auto& [one, other] : apart_pairs(graph_of(how_), static_cast<int>(ranks_))) {
    Estimate mean = Estimate::zeros(own[0].values.size());
    mean.add(0.5, own[static_cast<size_t>(one)]);
    mean.add(0.5, own[static_cast<size_t>(other)]);
    result[static_cast<size_t>(one)] = result[static_cast<size_t>(other)] = mean;
  }
  return result;
}

}  // namespace trireme::parity

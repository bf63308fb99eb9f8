// See agreed.h.
#include "trireme/train/parity/agreed.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/exchange/gossip.h"

namespace trireme::parity {
namespace {

using Way = ExchangeKind::Of;

constexpr double kUnit = 0x1p-22;  // two units in the last place of f32

GossipGraph graph_of(const Agreement& how) {
  return gossip_graph(how.settings().word("graph"));
}

// That a rank has taken of another one up to a step.
int64_t messages_taken(const ArrivalOrder& heard, int of, int64_t up_to) {
  int64_t count = 0;
  for (const auto& [step, arrivals] : heard) {
    if (step <= up_to) count += std::ranges::count(arrivals, of);
  }
  return count;
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

int64_t stalest(const Agreement& how, const ArrivalOrder& heard, int ranks, int rank, int64_t step) {
  int64_t most = 0;
  for (const int other : neighbours(graph_of(how), ranks, rank))
    most = std::max(most, step - messages_taken(heard, other, step));
  return most;
}

AgreedState::AgreedState(const Agreement& how, const std::vector<ArrivalOrder>& heard, Role role,
                         const Estimate& start, size_t ranks)
    : how_(how),
      heard_(heard),
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
      return mixed(step, before, own);
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
OfRanks AgreedState::mixed(int64_t step, const OfRanks& before, const OfRanks& own) {
  const bool is_buffer = role_ == Role::kBuffer;
  shared_.push_back(is_buffer ? own : before);
  OfRanks result;
  for (size_t r = 0; r < ranks_; ++r) {
    const int rank = static_cast<int>(r);
    std::vector<int> around = neighbours(graph_of(how_), static_cast<int>(ranks_), rank);
    around.push_back(rank);
    Estimate mine = Estimate::zeros(own[r].values.size());
    for (const int other : around) {
      const int64_t of_step = heard_.empty() || other == rank ? step : messages_taken(heard_[r], other, step);
      if (of_step < std::max<int64_t>(1, step - how_.staleness()) || of_step > step)
        throw_error("rank {} has mixed the weights of step {} of rank {} in step {}", rank, of_step, other,
                    step);
      mine.add(1.0 / static_cast<double>(around.size()),
               shared_[static_cast<size_t>(of_step - 1)][static_cast<size_t>(other)]);
    }
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

namespace {

// Each rank goes through what its order says as far as what others have made by then allows.
class PairedRanks {
 public:
  PairedRanks(const Agreement& how, const std::vector<ArrivalOrder>& heard, Role role,
              const std::vector<OfRanks>& own, const std::vector<OfRanks>& found)
      : heard_(heard),
        moves_from_(role == Role::kBuffer ? From::kOwn : From::kOffer),
        own_(own),
        found_(found),
        result_(own.size() + 1, OfRanks(own[0].size())) {
    const GossipGraph graph = graph_of(how);
    const int ranks = static_cast<int>(own[0].size());
    const auto seed = static_cast<uint64_t>(how.settings().whole("seed"));
    for (int rank = 0; rank < ranks; ++rank) {
      ranks_.push_back({.asks = asks(graph, ranks, rank), .draw = PartnerDraw(graph, ranks, rank, seed)});
      ranks_.back().now = own[0][static_cast<size_t>(rank)];
    }
  }

  std::vector<OfRanks> go() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        while (advance(r)) moved = true;
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].step < result_.size())
        throw_error("rank {} has taken messages in step {} that nobody has sent by then", r,
                    ranks_[r].step + 1);
    }
    return std::move(result_);
  }

 private:
  enum class From { kOwn, kOffer };
  struct Rank {
    bool asks;
    PartnerDraw draw;
    size_t step = 0, taken = 0;  // steps that are through; messages of the next
    Estimate now = {};
    // Of who asks: the partner (−1: none), what it was sent, and its answer.
    int asked = -1;
    Estimate offer = {};
    std::optional<Estimate> reply = {};
  };

  const Arrivals& arrivals(size_t r) const { return heard_[r].at(static_cast<int64_t>(ranks_[r].step) + 1); }

  // One message, or the end of a step; false where nobody has sent yet what comes next.
  bool advance(size_t r) {
    Rank& rank = ranks_[r];
    if (rank.step == result_.size()) return false;
    if (rank.taken < arrivals(r).size()) {
      if (!take(r, arrivals(r)[rank.taken])) return false;
      ++rank.taken;
      return true;
    }
    result_[rank.step][r] = rank.now;
    if (rank.asks && rank.asked < 0 && rank.step < own_.size()) {
      rank.asked = rank.draw.at(static_cast<int64_t>(rank.step));
      rank.offer = found_[rank.step][r];
    }
    ++rank.step;
    rank.taken = 0;
    rank.now = rank.step < own_.size() ? own_[rank.step][r] : found_.back()[r];
    return true;
  }

  bool take(size_t r, int other) {
    Rank& rank = ranks_[r];
    if (rank.asks) {
      if (rank.asked != other || !rank.reply) return false;
      move(rank.now, *std::exchange(rank.reply, std::nullopt), rank.offer);
      rank.asked = -1;
      return true;
    }
    Rank& from = ranks_[static_cast<size_t>(other)];
    if (from.asked == static_cast<int>(r) && !from.reply) {
      from.reply = rank.now;
      move(rank.now, from.offer, rank.now);
      return true;
    }
    return from.step == result_.size();  // that it will not ask any more
  }

  // Half of the way between two others; of a buffer, its own may have become less than half of what it was.
  void move(Estimate& now, const Estimate& to, const Estimate& from) const {
    const Estimate start = moves_from_ == From::kOwn ? now : from;
    now.add(0.5, to);
    now.add(-0.5, start);
  }

  const std::vector<ArrivalOrder>& heard_;
  const From moves_from_;
  const std::vector<OfRanks>&own_, &found_;
  std::vector<Rank> ranks_;
  std::vector<OfRanks> result_;
};

}  // namespace

std::vector<OfRanks> paired_by_order(const Agreement& how, const std::vector<ArrivalOrder>& heard, Role role,
                                     const std::vector<OfRanks>& own, const std::vector<OfRanks>& found) {
  if (role != Role::kOptimizer) return PairedRanks(how, heard, role, own, found).go();
  std::vector<OfRanks> result = own;
  result.push_back(own.back());
  return result;
}

}  // namespace trireme::parity

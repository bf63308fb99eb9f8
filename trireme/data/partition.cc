// See partition.h.
#include "trireme/data/partition.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/part.h"
#include "trireme/base/rng.h"

namespace trireme {
namespace {

using Samples = std::vector<uint32_t>;

std::vector<Samples> by_class(const std::map<int64_t, Samples>& groups, int64_t samples, int64_t ranks) {
  Samples all;
  for (const auto& [group, of_group] : groups) all.insert(all.end(), of_group.begin(), of_group.end());
  std::vector<Samples> result;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Part part = part_of(samples, ranks, rank);
    result.emplace_back(all.begin() + part.begin, all.begin() + part.end());
  }
  return result;
}

std::vector<Samples> by_role(const std::map<int64_t, Samples>& groups, int64_t ranks) {
  std::vector<const Samples*> longest;
  for (const auto& [group, samples] : groups) longest.push_back(&samples);
  std::ranges::stable_sort(longest, std::greater<>(), [](const Samples* one) { return one->size(); });
  std::vector<Samples> result(ranks);
  for (const Samples* samples : longest) {
    Samples& least = *std::ranges::min_element(result, {}, [](const Samples& one) { return one.size(); });
    least.insert(least.end(), samples->begin(), samples->end());
  }
  return result;
}

// Marsaglia and Tsang's draw from a gamma distribution of scale 1, as its logarithm: of a small alpha most
// are too small for a double.
double log_gamma_draw(double alpha, RngKey key, uint64_t& counter) {
  const auto above_0 = [&] { return (random_words(key, counter++)[0] + 1.0) * 0x1p-32; };
  const double boost = alpha < 1 ? std::log(above_0()) / alpha : 0;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const auto x = static_cast<double>(normal(key, counter++));
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(above_0()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d * v) + boost;
  }
}

std::vector<Samples> by_dirichlet(const std::map<int64_t, Samples>& groups, int64_t ranks, double alpha,
                                  RngKey key) {
  std::vector<Samples> result(ranks);
  uint64_t counter = 0;
  for (const auto& [group, samples] : groups) {
    std::vector<double> shares(ranks);
    for (double& share : shares) share = log_gamma_draw(alpha, key, counter);
    const double largest = std::ranges::max(shares);
    double sum = 0;
    for (double& share : shares) sum += share = std::exp(share - largest);
    double before = 0;
    int64_t begin = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      before += shares[rank] / sum;
      const int64_t end = rank + 1 == ranks ? std::ssize(samples)
                                            : std::llround(before * static_cast<double>(samples.size()));
      result[rank].insert(result[rank].end(), samples.begin() + begin,
                          samples.begin() + std::max(begin, end));
      begin = std::max(begin, end);
    }
  }
  return result;
}

// Shares are drawn again until every rank has a sample, which few ranks with many samples hardly ever need.
std::vector<Samples> by_dirichlet(const std::map<int64_t, Samples>& groups, int64_t ranks,
                                  const DirichletShares& shares) {
  constexpr uint64_t kDraws = 100;
  std::vector<Samples> result;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    result = by_dirichlet(groups, ranks, shares.alpha, {shares.seed, stream_id("data.partition") + draw});
    if (std::ranges::none_of(result, &Samples::empty)) break;
  }
  return result;
}

std::vector<Samples> dealt(DataPartition how, const std::map<int64_t, Samples>& groups, int64_t samples,
                           int64_t ranks, const DirichletShares& shares) {
  if (how == DataPartition::kClass) return by_class(groups, samples, ranks);
  return how == DataPartition::kRole ? by_role(groups, ranks) : by_dirichlet(groups, ranks, shares);
}

}  // namespace

DataPartition data_partition(std::string_view name) {
  if (name == "iid") return DataPartition::kIid;
  if (name == "class") return DataPartition::kClass;
  if (name == "role") return DataPartition::kRole;
  if (name == "dirichlet") return DataPartition::kDirichlet;
  throw_error("data.partition is '{}'; iid, class, role or dirichlet expected", name);
}

std::vector<std::vector<uint32_t>> partitioned(const DataSet& data, DataPartition how, int64_t ranks,
                                               const DirichletShares& shares) {
  if (how == DataPartition::kIid) return {};
  std::map<int64_t, Samples> groups;
  for (int64_t i = 0; i < data.size(); ++i) {
    const int64_t group = data.group(i);
    if (group < 0)
      throw_error(
          "data.partition deals samples by their class or role, but this data does not say of what they are; "
          "images have classes, and of a folder of text files each is a role. Use data.partition=iid");
    groups[group].push_back(static_cast<uint32_t>(i));
  }
  if (how != DataPartition::kRole && groups.size() == 1 && ranks > 1)
    throw_error(
        "data.partition gives ranks other classes, but all {} samples of this data are of one "
        "class or text; use data.partition=iid",
        data.size());
  std::vector<Samples> result = dealt(how, groups, data.size(), ranks, shares);
  for (Samples& samples : result) {
    if (samples.empty())
      throw_error(
          "data.partition would leave a rank without samples: there are {} of {} classes or roles for {} "
          "ranks; use fewer ranks, a larger data.dirichlet_alpha, or data.partition=iid",
          data.size(), groups.size(), ranks);
    std::ranges::sort(samples);
  }
  return result;
}

}  // namespace trireme

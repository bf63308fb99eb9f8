// See partition.h.
#include "trireme/data/partition.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/part.h"

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

}  // namespace

DataPartition data_partition(std::string_view name) {
  if (name == "iid") return DataPartition::kIid;
  if (name == "class") return DataPartition::kClass;
  if (name == "role") return DataPartition::kRole;
  throw_error("data.partition is '{}'; iid, class or role expected", name);
}

std::vector<std::vector<uint32_t>> partitioned(const DataSet& data, DataPartition how, int64_t ranks) {
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
  if (how == DataPartition::kClass && groups.size() == 1 && ranks > 1)
    throw_error(
        "data.partition = class gives each rank other classes, but all {} samples of this data are of one "
        "class or text; use data.partition=iid",
        data.size());
  std::vector<Samples> result =
      how == DataPartition::kClass ? by_class(groups, data.size(), ranks) : by_role(groups, ranks);
  for (Samples& samples : result) {
    if (samples.empty())
      throw_error(
          "data.partition would leave a rank without samples: there are {} of {} classes or roles for {} "
          "ranks; use fewer ranks, or data.partition=iid",
          data.size(), groups.size(), ranks);
    std::ranges::sort(samples);
  }
  return result;
}

}  // namespace trireme

// Which samples each of some ranks has for itself, as clients of federated learning do: every sample is one
// rank's, and ranks differ in the classes of their samples, or in who wrote them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/data_set.h"

namespace trireme {

enum class DataPartition {
  kIid,    // none: all ranks draw from all samples
  kClass,  // samples in the order of their classes, cut into parts of one size
  kRole,   // whole texts (the files of a folder), the longest first, each to the rank that has least so far
  kDirichlet,  // of every class, each rank has a share that is drawn from a Dirichlet distribution
};
DataPartition data_partition(std::string_view name);  // iid, class, role, dirichlet

// Of kDirichlet: all shares have the parameter alpha. A large one gives ranks equal shares, one near 0 gives
// most of a class to one rank.
struct DirichletShares {
  double alpha = 0.5;
  uint64_t seed = 0;
};

// The samples of each of `ranks`, ascending; none for kIid. Throws Error where the data does not say of what
// its samples are, or where a rank would have none.
std::vector<std::vector<uint32_t>> partitioned(const DataSet& data, DataPartition how, int64_t ranks,
                                               const DirichletShares& shares = {});

}  // namespace trireme

// Parameter groups: the rate and the decay of single parameters, by patterns of their names (optim.groups).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trireme/optim/options.h"

namespace trireme {

// The first group whose pattern the name fits; null where there is none.
const ParameterGroup* group_of(const OptimOptions& optim, std::string_view parameter);

// The decay of a parameter of this rank (number of dims): its group's, or optim.weight_decay for matrices and
// filters; biases and gains are left alone.
double decay_of(const OptimOptions& optim, std::string_view parameter, int dims);

// Throws an Error for a group that is of no use: none of the parameters fits its pattern, or those that do
// belong to groups before it or are not among `trained`.
void check_groups(const OptimOptions& optim, std::span<const std::string> all,
                  std::span<const std::string> trained);

}  // namespace trireme

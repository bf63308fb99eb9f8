// Settings of an optimizer and of its learning rate (optim.*, lr_schedule.*). 0 means automatic; the comment
// says from where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// What holds for the parameters that fit a pattern, instead of what holds for all (optim/groups.h).
struct ParameterGroup {
  std::string match;                   // a pattern of names
  double lr_scale = 1;                 // times the rate of the step
  std::optional<double> weight_decay;  // of all of them, vectors too; none: as without the group
  friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

struct OptimOptions {
  std::string kind = "adamw";
  double lr = 2e-3;
  double weight_decay = 0.1;           // on matrices only
  std::vector<ParameterGroup> groups;  // the first that fits a parameter holds
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  double trust = 0.001;             // the trust coefficient of LARS
  std::string batch_rule = "none";  // how lr grows when the batch does
  std::string decay_rule = "none";  // how weight_decay does, that of groups too
  int64_t base_batch = 0;           // automatic: train.batch_per_rank; without, train.batch, so nothing grows
};

struct LrScheduleOptions {
  std::string kind = "cosine";
  int64_t warmup_steps = 20;
  std::string warmup_from = "zero";  // or base: optim.lr before optim.batch_rule
  int64_t decay_steps = 0;  // automatic: train.steps
  double min_lr = 0.0;
  int64_t drop_every = 1000;  // steps; kind "step"
  double drop_factor = 0.1;   // kind "step"
};

}  // namespace trireme

// Weights, buffers, moments and gradients between the steps of a trainer, as numbers in host memory. Of
// several ranks, each sees its own part of what the plan splits.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/train/trainer.h"

namespace trireme {

// The parameters, frozen ones among them, by their names in checkpoints, in the order of the model.
std::vector<std::string> parameter_names(const Trainer& trainer);

// By its name in checkpoints (of a 16-bit weight, its f32 master is read, and both are written); moments are
// `m.NAME`, `v.NAME` and `u.NAME`. Throws an Error with the nearest name when there is no such tensor, and
// when the number of values is not its own.
std::vector<float> read_tensor(Trainer& trainer, std::string_view name);
void write_tensor(Trainer& trainer, std::string_view name, std::span<const float> values);

// Of a parameter, after forward_backward() and before update(): the mean over targets, without the loss scale
// and before clipping; of a split gradient, this rank's part. Ranks that add up their gradients in the update
// see that of their own targets: under most plans with several microbatches (not zero2 and zero3), and the
// second holders of chimera's chunks. Of a weight that several stages of a pipeline share, each sees what it
// adds itself. With zero2, zero3 and pipelines ranks tell each other how many targets they counted: all ranks
// must make the first call after a forward_backward(), of any of their parameters.
std::vector<float> read_gradient(Trainer& trainer, std::string_view parameter);

}  // namespace trireme

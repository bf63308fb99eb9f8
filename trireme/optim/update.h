// The update segment of a step: from accumulated gradients to new weights, as a graph like any other.
//
//   states   the parameters, `grad.NAME` for each, the optimizer's own (`m.NAME`, `v.NAME`, `u.NAME`),
//            `accumulated.count` and `accumulated.loss`; buffers (running statistics), `new.NAME` for each;
//            of a 16-bit parameter `master.NAME`, which the optimizer works on: the parameter is rounded from
//            it; with train.ema `ema.NAME`, the average of its values after each step
//   inputs   lr[], step[] (from 1), loss_scale[]; with watches_losses also loss_limit[]: where the mean loss
//            is above it, or not a number, the step is skipped
//   outputs  norm (of the whole gradient, before clipping), scale (NaN: the step was skipped), loss, count
//            (sums); with train.noise_scale squares and count_squares; of mixtures of experts those of
//            tallies.h
//
// A skipped step changes no state that lasts: neither weights nor the optimizer's nor buffers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/optim/options.h"
#include "trireme/optim/tallies.h"

namespace trireme {

// What training asks of an update beside its optimizer: the settings train.* of these names.
struct UpdateOptions {
  int64_t batch = 16;  // of which optim.decay_rule makes the weight decay
  double clip_norm = 1.0;
  double ema = 0.0;
  bool noise_scale = false;
  std::string gradient_precision = "f32";
  bool watches_losses = false;
};

// Names that the segments of a step share.
std::string gradient_name(std::string_view parameter);
// Where the forward part leaves what a buffer becomes if the step is not skipped.
std::string pending_name(std::string_view buffer);
// The f32 form of a 16-bit parameter.
std::string master_name(std::string_view parameter);
// The moving average of a parameter (train.ema): the optimizer's state, which starts as the parameter does.
Value average_of(const Value& parameter);
// The prefix of averages' names.
inline constexpr std::string_view kAverage = "ema.";
// Of what is added up for a parameter: f32, or the 16 bits of the parameter (train.gradient_precision).
TensorType gradient_type(const Value& parameter, const UpdateOptions& train);
// Attributes of a state that goes with a parameter and lies as it does: its gradient, its moments.
Attrs companion_attrs(const Value& parameter);
inline constexpr std::string_view kCountState = "accumulated.count";
inline constexpr std::string_view kLossState = "accumulated.loss";
// Squares of the pieces that a gradient and its count are made of; see critical_batch.h.
inline constexpr std::string_view kSquaresState = "accumulated.squares";
inline constexpr std::string_view kCountSquaresState = "accumulated.count_squares";

// Of a parameter that several chunks of a pipeline read: the state in which a chunk but the first adds up
// what it gives to the gradient, `grad.NAME~NUMBER`, by parameter, ascending. Chunks are counted among those
// that read it, so that a step is the same wherever else its model is cut.
using SharedGradients = std::map<std::string, std::vector<Value>, std::less<>>;
Value shared_gradient(const Value& parameter, const UpdateOptions& train, int number);

// What a buffer becomes of `new.NAME`.
struct Renewal {
  enum class By {
    kValue,        // that itself
    kSum,          // the mean of `values`, which are added up like gradients
    kWeightedSum,  // of values times their targets, added up like those: their mean takes the place of one
                   // `values`-th of the buffer
  } by = By::kValue;
  int64_t values = 1;
};

// `parameters`: the trained states; `buffers`: those that the forward part renews. Throws an Error when the
// optimizer is not known.
Graph update_graph(const std::vector<Value>& parameters, const std::vector<Value>& buffers,
                   const OptimOptions& options, const UpdateOptions& train, const Renewal& renewal = {},
                   const SharedGradients& shared = {}, const Tallies& tallies = {});

}  // namespace trireme

// See features.h.
#include "trireme/train/features.h"

#include "trireme/passes/pins.h"

namespace trireme {

Features features_of(const Plan& plan, const TrainOptions& train) {
  Features features = features_of(plan);
  const auto add = [&](Feature feature, bool there) {
    if (there) features.insert(feature);
  };
  add(Feature::kSharedBatch, others_share_batch(plan));
  add(Feature::kShards, train.shards > 0);
  add(Feature::kF16, train.precision == "f16");
  add(Feature::kHalfWeights, train.weight_precision != "f32");
  add(Feature::kHalfGradients, train.gradient_precision != "f32");
  add(Feature::kNoiseScale, train.noise_scale);
  add(Feature::kAverages, train.ema > 0);
  add(Feature::kClipNorm, train.clip_norm > 0);
  add(Feature::kBadSteps, watches_losses(train));
  add(Feature::kNumbers, train.numbers_every > 0);
  add(Feature::kRecheck, train.recheck_every > 0);
  add(Feature::kCuda, train.device.starts_with("cuda"));
  return features;
}

}  // namespace trireme

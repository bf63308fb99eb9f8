// Low-rank adapters (model.lora; models/network.h) and the weights that they stand beside.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/models/model.h"

namespace trireme {

// What adapters add is multiplied by this: alpha / rank.
double lora_scale(const LoraOptions& lora);

struct AdaptedWeight {
  std::string weight, a, b;  // names
  Network::Store store = Network::Store::kOutIn;
};
// Of a model for a batch of such samples, in the order of its layers.
std::vector<AdaptedWeight> adapted_weights(const Model& model, const Shape& sample);

// weight += scale · (B·A), or its transpose where the weight is [in, out]. A is [rank, in], B [out, rank].
void merge_adapter(std::span<float> weight, std::span<const float> a, std::span<const float> b, int64_t rank,
                   double scale, Network::Store store);

}  // namespace trireme

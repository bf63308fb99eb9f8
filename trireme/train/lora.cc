// See lora.h.
#include "trireme/train/lora.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/train/step.h"

namespace trireme {

double lora_scale(const LoraOptions& lora) {
  const auto rank = static_cast<double>(lora.rank);
  return lora.alpha == 0 ? 1 : lora.alpha / rank;
}

std::vector<AdaptedWeight> adapted_weights(const Model& model, const Shape& sample) {
  std::vector<AdaptedWeight> result;
  const Graph graph = forward_graph(model, {1, sample}, DType::f32);
  std::map<std::string, std::string> second;  // B, by the weight
  for (const Value& value : graph.values) {
    if (value.attrs.has(kAdapts) && value.name.ends_with(".lora_B.weight"))
      second[value.attrs.text(kAdapts)] = value.name;
  }
  for (const Value& value : graph.values) {
    if (!value.attrs.has(kAdapts) || !value.name.ends_with(".lora_A.weight")) continue;
    const std::string& weight = value.attrs.text(kAdapts);
    result.push_back({weight, value.name, second.at(weight),
                      value.attrs.has("in_out") ? Network::Store::kInOut : Network::Store::kOutIn});
  }
  return result;
}

void merge_adapter(std::span<float> weight, std::span<const float> a, std::span<const float> b, int64_t rank,
                   double scale, Network::Store store) {
  const int64_t in = std::ssize(a) / rank, out = std::ssize(b) / rank;
  TRIREME_CHECK(std::ssize(weight) == in * out);
  std::vector<double> row(static_cast<size_t>(in));
  for (int64_t o = 0; o < out; ++o) {
    std::ranges::fill(row, 0.0);
    for (int64_t r = 0; r < rank; ++r) {
      for (int64_t i = 0; i < in; ++i) row[i] += static_cast<double>(b[o * rank + r]) * a[r * in + i];
    }
    for (int64_t i = 0; i < in; ++i) {
      float& one = weight[store == Network::Store::kInOut ? i * out + o : o * in + i];
      one = static_cast<float>(one + scale * row[i]);
    }
  }
}

}  // namespace trireme

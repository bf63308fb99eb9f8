// See noise.h.
#include "trireme/train/parity/noise.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "trireme/base/rng.h"
#include "trireme/base/with_type.h"
#include "trireme/ops/table.h"
#include "trireme/train/parity/row_groups.h"

namespace trireme::parity {
namespace {

double terms_of(const Graph& graph, const Node& node, int output) {
  const std::vector<TensorType> inputs = graph.types_of(node.inputs);
  const IndexRule rule = node.op->index({node.op->name, inputs, node.attrs});
  double summed = 1;
  for (size_t i = 0; i < rule.indices.size(); ++i) {
    const bool own = IndexRule::dim_of(rule.outputs[output], static_cast<int>(i)) >= 0;
    if (!own || rule.indices[i].split == Index::Split::kWhole)
      summed *= static_cast<double>(rule.indices[i].extent);
  }
  const double elements = static_cast<double>(graph.type(node.outputs[output]).shape.elements());
  const double work = cost_of(graph, node).flops / std::max(1.0, elements);
  return std::max(1.0, std::min(summed, work));
}

// Evenly distributed in [−1, 1).
double balanced(UniformDraws& draws, size_t element) {
  return 2.0 * draws.at(element) - 1;
}

// Numbers of f16 below 2^-14 are this far apart, however small they are. Gradients can be that small.
template <typename T>
constexpr double kLeastUnit = std::is_same_v<T, F16> ? 0x1p-24 : 0;

template <typename T>
void move(const TensorView& view, double ulp, double terms, RngKey key) {
  T* values = view.as<T>();
  const auto value_at = [&](int64_t i) { return static_cast<double>(static_cast<float>(values[i])); };
  UniformDraws draws(key);
  const double reach = ulp + (terms > 1 ? 0x1p-23 * std::sqrt(terms) : 0);
  for_each_row_group(view.shape, [&](int64_t begin, int64_t end) {
    double squares = 0;
    for (int64_t i = begin; i < end && terms > 1; ++i) squares += value_at(i) * value_at(i);
    const double rms = std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, end - begin)));
    for (int64_t i = begin; i < end; ++i) {
      const double value = value_at(i);
      if (value == 0) continue;
      const double far = std::max(reach * std::max(std::abs(value), rms), kLeastUnit<T>);
      values[i] = T(static_cast<float>(value + far * balanced(draws, static_cast<size_t>(i))));
    }
  });
}

}  // namespace

double unit_in_last_place(DType format) {
  return format == DType::bf16 ? 0x1p-7 : format == DType::f16 ? 0x1p-10 : 0x1p-23;
}

RoundingNoise::RoundingNoise(const Program& program) {
  for (const Segment& segment : program.segments) {
    std::vector<std::vector<double>>& nodes = terms_.emplace_back();
    for (const Node& node : segment.graph.nodes) {
      std::vector<double>& outputs = nodes.emplace_back();
      for (size_t o = 0; o < node.outputs.size(); ++o)
        outputs.push_back(terms_of(segment.graph, node, static_cast<int>(o)));
    }
  }
}

Executor::Observer RoundingNoise::sample(uint64_t seed) const {
  return [this, seed, stream = uint64_t{0}](int segment, int node, int output,
                                            const TensorView& result) mutable {
    if (!is_float(result.dtype)) return;
    const RngKey key{seed, stream++};
    with_type(result.dtype, [&](auto zero) {
      move<decltype(zero)>(result, unit_in_last_place(result.dtype), terms(segment, node, output), key);
    });
  };
}

void move_values(std::vector<float>& values, const std::vector<float>& reach, uint64_t seed) {
  UniformDraws draws(RngKey{seed, stream_id("states")});
  for (size_t i = 0; i < values.size(); ++i) values[i] += reach[i] * static_cast<float>(balanced(draws, i));
}

}  // namespace trireme::parity

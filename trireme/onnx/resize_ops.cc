// Resize and Upsample: along each dim, a product with a known matrix of weights.
#include <algorithm>
#include <cmath>

#include "trireme/onnx/node.h"

namespace trireme::onnx {
namespace {

struct Way {
  std::string mode, coordinates, nearest;
  double cubic = -0.75;
  bool excludes_outside = false;
};

// The place in the original that place `to` of the result stands for.
double original(const Way& way, double to, double scale, int64_t from_extent, int64_t to_extent) {
  if (way.coordinates == "asymmetric") return to / scale;
  if (way.coordinates == "align_corners") {  // of the extent before it is rounded down
    const double whole = scale * static_cast<double>(from_extent);
    return to_extent == 1 ? 0 : to * static_cast<double>(from_extent - 1) / (whole - 1);
  }
  if (way.coordinates == "pytorch_half_pixel" && to_extent <= 1) return 0;
  if (way.coordinates == "half_pixel" || way.coordinates == "pytorch_half_pixel")
    return (to + 0.5) / scale - 0.5;
  throw_error("coordinates '{}' are not supported", way.coordinates);
}

int64_t nearest_to(const Way& way, double x) {
  if (way.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (way.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  const double half_down = std::ceil(x - 0.5), half_up = std::floor(x + 0.5);
  return static_cast<int64_t>(way.nearest == "round_prefer_ceil" ? half_up : half_down);
}

double cubic_weight(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

Tensor weights(const Way& way, int64_t from, int64_t to, double scale) {
  Tensor matrix = zeros(Type::kF32, {from, to});
  for (int64_t j = 0; j < to; ++j) {
    const double x = original(way, static_cast<double>(j), scale, from, to);
    const auto first = static_cast<int64_t>(std::floor(x));
    const bool cubic = way.mode == "cubic";
    double sum = 0;
    for (int64_t i = first - 1; i <= first + 2; ++i) {
      const double distance = std::abs(x - static_cast<double>(i));
      double weight = cubic ? cubic_weight(way.cubic, distance) : std::max(0.0, 1 - distance);
      if (cubic && way.excludes_outside && (i < 0 || i >= from)) weight = 0;
      sum += weight;
      matrix.reals[std::clamp<int64_t>(i, 0, from - 1) * to + j] += weight;
    }
    if (cubic && way.excludes_outside) {
      for (int64_t i = 0; i < from; ++i) matrix.reals[i * to + j] /= sum;
    }
  }
  return matrix;
}

Value resized(Emitter& e, Value x, const Way& way, const std::vector<int64_t>& sizes,
              const std::vector<double>& scales) {
  for (int d = 0; d < x.shape.rank(); ++d) {
    const int64_t from = x.shape[d], to = sizes[d];
    if (from == to && scales[d] == 1) continue;
    if (from < 1 || to < 1 || to > (1 << 20)) throw_error("it makes {} elements of {}", to, from);
    if (way.mode == "nearest") {
      std::vector<int64_t> indices;
      for (int64_t j = 0; j < to; ++j)
        indices.push_back(std::clamp<int64_t>(
            nearest_to(way, original(way, static_cast<double>(j), scales[d], from, to)), 0, from - 1));
      x = e.take(x, d, indices);
    } else {
      x = e.along(x, d, weights(way, from, to, scales[d]));
    }
  }
  return x;
}

Values resize(Node& n) {
  const Value& x = n.in(0);
  const bool upsample = n.opset < 11;  // and Resize of opset 10
  Way way{.mode = n.text("mode", "nearest"),
          .coordinates = upsample ? "asymmetric" : n.text("coordinate_transformation_mode", "half_pixel"),
          .nearest = upsample ? "floor" : n.text("nearest_mode", "round_prefer_floor"),
          .cubic = n.real("cubic_coeff_a", -0.75),
          .excludes_outside = n.integer("exclude_outside", 0) != 0};
  if (way.mode == "bilinear") way.mode = "linear";
  if (way.mode != "nearest" && way.mode != "linear" && way.mode != "cubic")
    throw_error("its mode '{}' is not supported", way.mode);
  if (n.integer("antialias", 0) != 0 || n.has_attribute("axes"))
    throw_error("antialias and axes are not supported");
  const int rank = x.shape.rank(), at_scales = upsample ? 1 : 2;
  std::vector<double> scales;
  if (n.has_attribute("scales")) {
    const std::vector<float> given = n.reals("scales");
    scales.assign(given.begin(), given.end());
  } else if (n.has(at_scales)) {
    scales = n.constant(at_scales, "scales").reals;
  }
  std::vector<int64_t> sizes;
  if (scales.empty()) {
    if (n.has_attribute("keep_aspect_ratio_policy") &&
        n.text("keep_aspect_ratio_policy", "stretch") != "stretch")
      throw_error("keep_aspect_ratio_policy is not supported");
    sizes = n.known_integers(3, "sizes");
    for (size_t d = 0; d < sizes.size() && static_cast<int>(sizes.size()) == rank; ++d)
      scales.push_back(static_cast<double>(sizes[d]) /
                       static_cast<double>(std::max<int64_t>(1, x.shape[static_cast<int>(d)])));
  } else {
    for (size_t d = 0; d < scales.size() && static_cast<int>(scales.size()) == rank; ++d) {
      if (!(scales[d] > 0 && scales[d] < 1 << 20)) throw_error("a scale of {}", scales[d]);
      sizes.push_back(
          static_cast<int64_t>(std::floor(static_cast<double>(x.shape[static_cast<int>(d)]) * scales[d])));
    }
  }
  if (static_cast<int>(sizes.size()) != rank)
    throw_error("{} sizes or scales of {}", sizes.size(), to_string(x.shape));
  return {resized(n.e, x, way, sizes, scales)};
}

}  // namespace

std::vector<LoweringEntry> resize_ops() {
  return {{"Resize", resize}, {"Upsample", resize}};
}

}  // namespace trireme::onnx

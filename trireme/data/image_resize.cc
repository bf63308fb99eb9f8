// Separable bilinear resizing: first along x, then along y, each with weights computed once per column or
// row; see image_decode.h.
#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/data/image_decode.h"

namespace trireme {
namespace {

// Source pixels [first, first + weights.size()) make one target pixel.
struct Tap {
  int64_t first;
  std::vector<float> weights;
};

std::vector<Tap> make_taps(int64_t source, int64_t target) {
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double radius = std::max(1.0, scale);
  std::vector<Tap> taps;
  for (int64_t i = 0; i < target; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(center - radius)));
    const int64_t last = std::min<int64_t>(source, static_cast<int64_t>(std::ceil(center + radius)));
    Tap tap{first, {}};
    double sum = 0;
    for (int64_t j = first; j < last; ++j) {
      const double weight = std::max(0.0, 1.0 - std::abs(static_cast<double>(j) + 0.5 - center) / radius);
      tap.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : tap.weights) weight = static_cast<float>(weight / sum);
    taps.push_back(std::move(tap));
  }
  return taps;
}

}  // namespace

Image resize_bilinear(const Image& image, int64_t height, int64_t width) {
  TRIREME_CHECK(height > 0);
  TRIREME_CHECK(width > 0);
  if (image.height == height && image.width == width) return image;
  const std::vector<Tap> columns = make_taps(image.width, width), rows = make_taps(image.height, height);
  std::vector<float> narrow(static_cast<size_t>(image.height * width * 3));
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const Tap& tap = columns[x];
      for (int64_t c = 0; c < 3; ++c) {
        float sum = 0;
        for (size_t j = 0; j < tap.weights.size(); ++j) {
          sum +=
              tap.weights[j] * image.pixels[(y * image.width + tap.first + static_cast<int64_t>(j)) * 3 + c];
        }
        narrow[(y * width + x) * 3 + c] = sum;
      }
    }
  }
  Image result{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3))};
  const int64_t line = width * 3;
  for (int64_t y = 0; y < height; ++y) {
    const Tap& tap = rows[y];
    for (int64_t i = 0; i < line; ++i) {
      float sum = 0;
      for (size_t j = 0; j < tap.weights.size(); ++j)
        sum += tap.weights[j] * narrow[(tap.first + static_cast<int64_t>(j)) * line + i];
      result.pixels[y * line + i] = static_cast<uint8_t>(std::clamp(std::lround(sum), 0L, 255L));
    }
  }
  return result;
}

Image center_crop(const Image& image, int64_t height, int64_t width) {
  TRIREME_CHECK(height <= image.height);
  TRIREME_CHECK(width <= image.width);
  const int64_t top = (image.height - height) / 2, left = (image.width - width) / 2;
  Image result{height, width, {}};
  result.pixels.reserve(static_cast<size_t>(height * width * 3));
  for (int64_t y = 0; y < height; ++y) {
    const auto begin = image.pixels.begin() + ((top + y) * image.width + left) * 3;
    result.pixels.insert(result.pixels.end(), begin, begin + width * 3);
  }
  return result;
}

Image fit_image(const Image& image, int64_t height, int64_t width) {
  const double scale = std::max(static_cast<double>(height) / static_cast<double>(image.height),
                                static_cast<double>(width) / static_cast<double>(image.width));
  const auto scaled = [&](int64_t extent, int64_t least) {
    return std::max<int64_t>(least, std::lround(static_cast<double>(extent) * scale));
  };
  return center_crop(resize_bilinear(image, scaled(image.height, height), scaled(image.width, width)), height,
                     width);
}

}  // namespace trireme

// Statistics and hash; see image_set.h. Sums are of integers, hence exact and the same in any order.
#include "trireme/data/image_set.h"

#include <array>
#include <cmath>

#include "trireme/base/hash.h"

namespace trireme {

ChannelStatistics measure_channels(const ImageSet& images, std::span<const uint32_t> indices) {
  ChannelStatistics statistics;
  const int64_t plane = images.height * images.width;
  for (int64_t channel = 0; channel < images.channels; ++channel) {
    std::array<uint64_t, 256> counts{};
    for (const uint32_t index : indices) {
      for (const uint8_t pixel : images.image(index).subspan(channel * plane, plane)) ++counts[pixel];
    }
    double total = 0, sum = 0, squares = 0;
    for (int value = 0; value < 256; ++value) {
      const double count = static_cast<double>(counts[value]);
      total += count;
      sum += count * value;
      squares += count * value * value;
    }
    const double mean = total > 0 ? sum / total : 0;
    const double variance = total > 0 ? std::max(0.0, squares / total - mean * mean) : 0;
    statistics.mean.push_back(static_cast<float>(mean / 255));
    // A constant channel carries nothing; dividing by 1 keeps it finite.
    statistics.deviation.push_back(variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0f);
  }
  return statistics;
}

uint64_t hash_images(const ImageSet& images, std::span<const uint32_t> indices) {
  uint64_t hash = 0;
  for (const uint32_t index : indices) {
    const std::span<const uint8_t> pixels = images.image(index);
    hash = hash_of(pixels.data(), pixels.size(), hash);
    hash = hash_of(&images.labels[index], sizeof(int32_t), hash);
  }
  return hash;
}

}  // namespace trireme

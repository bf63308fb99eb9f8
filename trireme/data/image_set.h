// Labelled images of one size in memory, one byte a channel, and what all readers of them share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

struct ImageSet {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;       // [n][channel][y][x]
  std::vector<int32_t> labels;       // one per image, in [0, classes.size())
  std::vector<std::string> classes;  // names by label
  std::vector<std::string>
      files;  // one per image, below the folder that they are of; empty: one file has all

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t image_bytes() const { return channels * height * width; }
  std::span<const uint8_t> image(int64_t index) const {
    return {pixels.data() + index * image_bytes(), static_cast<size_t>(image_bytes())};
  }
};

// Mean and standard deviation of each channel over the given images, pixels counted as 0 to 1.
struct ChannelStatistics {
  std::vector<float> mean, deviation;
};
ChannelStatistics measure_channels(const ImageSet& images, std::span<const uint32_t> indices);

// XXH64 of the given images and their labels.
uint64_t hash_images(const ImageSet& images, std::span<const uint32_t> indices);

}  // namespace trireme

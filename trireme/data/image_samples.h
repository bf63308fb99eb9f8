// Samples of an image classifier: normalised, augmented images and their labels.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "trireme/data/data_set.h"
#include "trireme/data/image_set.h"

namespace trireme {

enum class Flip { none, horizontal };

struct ImageSampleOptions {
  // (pixel / 255 - mean) / deviation, one value for all channels or one per channel.
  std::vector<float> mean{0.0f}, deviation{1.0f};
  int64_t crop_padding =
      0;  // pad by so many black pixels on each side, then cut the old size at a random place
  Flip flip = Flip::none;  // horizontal: mirror every other image, by chance
  uint64_t seed = 0;

  void validate(int64_t channels) const;  // throws Error
};

class ImageSamples final : public DataSet {
 public:
  // `indices` chooses images of the set; their place in it is the sample number that keys augmentation.
  ImageSamples(std::shared_ptr<const ImageSet> images, std::vector<uint32_t> indices,
               const ImageSampleOptions& options);

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const override;
  void write_padding(int64_t row, Batch& batch) const override;
  Origin origin(int64_t index) const override {
    return {indices_[index], images_->files.empty() ? "" : images_->files[indices_[index]]};
  }
  int64_t group(int64_t index) const override { return images_->labels[indices_[index]]; }

  const ImageSampleOptions& options() const { return options_; }

 private:
  std::shared_ptr<const ImageSet> images_;
  std::vector<uint32_t> indices_;
  ImageSampleOptions options_;
  std::vector<std::array<float, 256>> value_of_;  // per channel: byte -> normalised value
  std::vector<SampleTensor> tensors_;
};

}  // namespace trireme

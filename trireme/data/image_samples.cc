// Normalisation and augmentation while a batch row is written; see image_samples.h. A table of 256 values
// per channel replaces the arithmetic, and a shift and a mirror of indices replace copies.
#include "trireme/data/image_samples.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

constexpr size_t kImages = 0, kLabels = 1;  // in the order of tensors()

float channel_value(const std::vector<float>& values, int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
}

// Where an augmented image is cut from: target (y, x) comes from source (y + dy, x + dx), mirrored or not.
struct Crop {
  int64_t dy = 0, dx = 0;
  bool mirrored = false;
};

Crop place(const ImageSampleOptions& options, int64_t epoch, int64_t index) {
  Crop crop;
  if (options.crop_padding == 0 && options.flip == Flip::none) return crop;
  const auto words =
      random_words(epoch_key(options.seed, "data.augment", epoch), static_cast<uint64_t>(index));
  const uint64_t places = 2 * static_cast<uint64_t>(options.crop_padding) + 1;
  crop.dy = static_cast<int64_t>((words[0] * places) >> 32) - options.crop_padding;
  crop.dx = static_cast<int64_t>((words[1] * places) >> 32) - options.crop_padding;
  crop.mirrored = options.flip == Flip::horizontal && (words[2] >> 31) != 0;
  return crop;
}

// One line of the target, from one line of the source shifted by dx.
void write_line(const uint8_t* source, const std::array<float, 256>& value_of, int64_t width,
                const Crop& crop, float* target) {
  const int64_t begin = std::clamp<int64_t>(-crop.dx, 0, width),
                end = std::clamp<int64_t>(width - crop.dx, 0, width);
  if (crop.mirrored) {
    for (int64_t x = 0; x < width; ++x) {
      const int64_t at = width - 1 - x;
      target[x] = value_of[at >= begin && at < end ? source[at + crop.dx] : 0];
    }
    return;
  }
  std::fill(target, target + begin, value_of[0]);
  for (int64_t x = begin; x < end; ++x) target[x] = value_of[source[x + crop.dx]];
  std::fill(target + end, target + width, value_of[0]);
}

}  // namespace

void ImageSampleOptions::validate(int64_t channels) const {
  for (const auto* values : {&mean, &deviation}) {
    if (values->size() != 1 && static_cast<int64_t>(values->size()) != channels) {
      throw_error("{} values given to normalise {} channels; give one, or one per channel", values->size(),
                  channels);
    }
  }
  for (const float value : deviation) {
    if (!(value > 0)) throw_error("a standard deviation of {} found, a positive number expected", value);
  }
  if (crop_padding < 0 || crop_padding > 4096)
    throw_error("crop_padding is {}, a number of pixels from 0 to 4096 was expected", crop_padding);
}

ImageSamples::ImageSamples(std::shared_ptr<const ImageSet> images, std::vector<uint32_t> indices,
                           const ImageSampleOptions& options)
    : images_(std::move(images)), indices_(std::move(indices)), options_(options) {
  options_.validate(images_->channels);
  for (int64_t channel = 0; channel < images_->channels; ++channel) {
    std::array<float, 256>& table = value_of_.emplace_back();
    for (int value = 0; value < 256; ++value) {
      table[value] = (static_cast<float>(value) / 255.0f - channel_value(options_.mean, channel)) /
                     channel_value(options_.deviation, channel);
    }
  }
  tensors_ = {{"images", DType::f32, Shape{images_->channels, images_->height, images_->width}},
              {"labels", DType::i32, Shape{}}};
}

void ImageSamples::write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const {
  const uint32_t image = indices_[static_cast<size_t>(index)];
  const int64_t height = images_->height, width = images_->width;
  const Crop crop = place(options_, epoch, index);
  const uint8_t* source = images_->image(image).data();
  float* target = batch.tensors[kImages].second.row<float>(row).data();
  for (int64_t channel = 0; channel < images_->channels; ++channel) {
    const std::array<float, 256>& table = value_of_[static_cast<size_t>(channel)];
    for (int64_t y = 0; y < height; ++y, target += width) {
      const int64_t from = y + crop.dy;
      if (from < 0 || from >= height) {
        std::fill(target, target + width, table[0]);
      } else {
        write_line(source + (channel * height + from) * width, table, width, crop, target);
      }
    }
  }
  batch.tensors[kLabels].second.row<int32_t>(row)[0] = images_->labels[image];
}

void ImageSamples::write_padding(int64_t row, Batch& batch) const {
  std::ranges::fill(batch.tensors[kImages].second.row<float>(row), 0.0f);
  batch.tensors[kLabels].second.row<int32_t>(row)[0] = kIgnoreTarget;
}

}  // namespace trireme

// JPEG and PNG to pixels.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

// Red, green and blue interleaved: [y][x][3].
struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;
};

inline constexpr int64_t kMaxPixels = int64_t{1} << 26;  // 8192 x 8192: 192 MiB decoded

// Decodes by the first bytes of the file, whatever its name. Grey and palette images become RGB, 16-bit
// ones are rounded to 8, an alpha channel is dropped. Throws Error on anything damaged or truncated, and
// before allocating when the header claims more than max_pixels.
Image decode_image(std::span<const uint8_t> bytes, std::string_view name, int64_t max_pixels = kMaxPixels);

// One format each; decode_image chooses.
Image decode_jpeg(std::span<const uint8_t> bytes, std::string_view name, int64_t max_pixels);
Image decode_png(std::span<const uint8_t> bytes, std::string_view name, int64_t max_pixels);

// Bilinear, pixel centres at half positions. Where the image shrinks the filter widens with the scale
// (a triangle over all source pixels under the target pixel), so that fine detail does not alias.
Image resize_bilinear(const Image& image, int64_t height, int64_t width);

// The middle of the image; one pixel nearer to the start where it cannot be even.
Image center_crop(const Image& image, int64_t height, int64_t width);

// Scales until the shorter side fits `height` x `width` in full, keeping the proportions, then crops.
Image fit_image(const Image& image, int64_t height, int64_t width);

}  // namespace trireme

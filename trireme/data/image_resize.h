// Bringing images to one size.
#pragma once

#include "trireme/data/image_decode.h"

namespace trireme {

// Bilinear, pixel centres at half positions. Where the image shrinks the filter widens with the scale
// (a triangle over all source pixels under the target pixel), so that fine detail does not alias.
Image resize_bilinear(const Image& image, int64_t height, int64_t width);

// The middle of the image; one pixel nearer to the start where it cannot be even.
Image center_crop(const Image& image, int64_t height, int64_t width);

// Scales until the shorter side fits `height` x `width` in full, keeping the proportions, then crops.
Image fit_image(const Image& image, int64_t height, int64_t width);

}  // namespace trireme

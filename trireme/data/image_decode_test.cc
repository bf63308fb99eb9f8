// JPEG and PNG of every colour form, damaged ones, and resizing.
#include "trireme/data/image_decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "trireme/data/test_files.h"
#include "trireme/data/test_images.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
Image decode(const std::string& text) {
  return decode_image(bytes_of(text), "picture");
}

void expect_close(const std::vector<uint8_t>& found, const std::vector<uint8_t>& expected, int tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << i;
}

TEST(Jpeg, ColourGreyAndProgressive) {
  const auto colour = gradient_pixels(16, 24, 3), grey = gradient_pixels(16, 24, 1);
  const Image image = decode(make_jpeg(16, 24, 3, colour));
  EXPECT_EQ(image.height, 16);
  EXPECT_EQ(image.width, 24);
  expect_close(image.pixels, colour, 6);
  expect_close(decode(make_jpeg(16, 24, 3, colour, /*progressive=*/true)).pixels, colour, 6);
  const Image from_grey = decode(make_jpeg(16, 24, 1, grey));
  ASSERT_EQ(from_grey.pixels.size(), grey.size() * 3);
  for (size_t i = 0; i < grey.size(); ++i) {
    EXPECT_NEAR(from_grey.pixels[3 * i], grey[i], 3);
    EXPECT_EQ(from_grey.pixels[3 * i], from_grey.pixels[3 * i + 2]);
  }
}

// Cut anywhere, a JPEG is an error, never an image with a grey rest.
TEST(Jpeg, TruncatedIsAnError) {
  const std::string whole = make_jpeg(16, 24, 3, gradient_pixels(16, 24, 3));
  for (size_t size = 3; size + 2 < whole.size(); size += 7) {
    EXPECT_THAT(error_of([&] { decode(whole.substr(0, size)); }),
                AllOf(HasSubstr("picture"), HasSubstr("JPEG")))
        << size;
  }
}

TEST(Jpeg, RefusesCmykAndTooManyPixels) {
  EXPECT_THAT(error_of([] { decode(make_jpeg(8, 8, 4, gradient_pixels(8, 8, 4))); }), HasSubstr("CMYK"));
  const std::string image = make_jpeg(8, 8, 3, gradient_pixels(8, 8, 3));
  EXPECT_THAT(error_of([&] { decode_image(bytes_of(image), "big", 63); }),
              HasSubstr("8x8 pixels found, at most 63"));
}

TEST(Png, EveryFormBecomesRgb) {
  const auto colour = gradient_pixels(3, 5, 3);
  EXPECT_EQ(decode(make_png(3, 5, PNG_FORMAT_RGB, colour)).pixels, colour);
  const Image grey = decode(make_png(1, 2, PNG_FORMAT_GRAY, {7, 200}));
  EXPECT_THAT(grey.pixels, ElementsAre(7, 7, 7, 200, 200, 200));
  const Image alpha = decode(make_png(1, 2, PNG_FORMAT_RGBA, {10, 20, 30, 255, 40, 50, 60, 128}));
  EXPECT_THAT(alpha.pixels, ElementsAre(10, 20, 30, 40, 50, 60));  // alpha dropped, colours as they are
  const Image palette = decode(make_png(1, 3, PNG_FORMAT_RGB_COLORMAP, {1, 0, 1}, {9, 8, 7, 1, 2, 3}));
  EXPECT_THAT(palette.pixels, ElementsAre(1, 2, 3, 9, 8, 7, 1, 2, 3));
}

TEST(Png, DamagedIsAnError) {
  const std::string whole = make_png(30, 50, PNG_FORMAT_RGB, gradient_pixels(30, 50, 3));
  for (size_t size = 4; size + 20 < whole.size(); size += 5) {
    EXPECT_THAT(error_of([&] { decode(whole.substr(0, size)); }), HasSubstr("damaged PNG")) << size;
  }
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  EXPECT_THAT(error_of([&] { decode(flipped); }), HasSubstr("damaged PNG"));
  EXPECT_THAT(error_of([&] { decode_image(bytes_of(whole), "big", 1499); }), HasSubstr("50x30"));
}

TEST(DecodeImage, RefusesOtherFiles) {
  EXPECT_THAT(error_of([] { decode("GIF89a"); }), HasSubstr("neither JPEG nor PNG"));
  EXPECT_THAT(error_of([] { decode(""); }), HasSubstr("0 bytes in all"));
}

Image grey_image(int64_t height, int64_t width, const std::vector<uint8_t>& values) {
  Image image{height, width, {}};
  for (const uint8_t value : values) image.pixels.insert(image.pixels.end(), {value, value, value});
  return image;
}

TEST(Resize, AveragesWhenShrinkingAndInterpolatesWhenGrowing) {
  const Image line = grey_image(1, 4, {0, 100, 200, 100});
  // Halving weighs the four pixels under a triangle of radius 2: 1, 3, 3 (and 1 outside) over 7.
  const Image half = resize_bilinear(line, 1, 2);
  EXPECT_EQ(half.pixels[0], std::lround((0 * 3 + 100 * 3 + 200 * 1) / 7.0));
  const Image twice = resize_bilinear(grey_image(1, 2, {0, 100}), 1, 4);
  EXPECT_EQ(twice.pixels[0], 0);
  EXPECT_EQ(twice.pixels[3], 25);
  EXPECT_EQ(twice.pixels[6], 75);
  EXPECT_EQ(twice.pixels[9], 100);
  EXPECT_EQ(resize_bilinear(line, 1, 4).pixels, line.pixels);
}

TEST(Resize, KeepsConstantImages) {
  const Image flat = resize_bilinear(grey_image(7, 5, std::vector<uint8_t>(35, 93)), 13, 2);
  for (const uint8_t value : flat.pixels) EXPECT_EQ(value, 93);
}

TEST(Resize, FitCropsTheMiddle) {
  const Image wide = grey_image(1, 5, {1, 2, 3, 4, 5});
  const Image middle = center_crop(wide, 1, 3);
  EXPECT_THAT(middle.pixels, ElementsAre(2, 2, 2, 3, 3, 3, 4, 4, 4));
  const Image fitted = fit_image(grey_image(2, 4, {0, 50, 50, 0, 0, 50, 50, 0}), 2, 2);
  EXPECT_EQ(fitted.height, 2);
  EXPECT_EQ(fitted.width, 2);
  for (const uint8_t value : fitted.pixels) EXPECT_EQ(value, 50);
}

}  // namespace
}  // namespace trireme

// Sets of images: IDX, CIFAR-10, folders; normalisation and augmentation of samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "trireme/data/cifar.h"
#include "trireme/data/file.h"
#include "trireme/data/idx.h"
#include "trireme/data/image_folder.h"
#include "trireme/data/image_samples.h"
#include "trireme/data/test_files.h"
#include "trireme/data/test_images.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Idx, ReadsPlainAndPacked) {
  TempFolder folder;
  folder.write("train-images-idx3-ubyte", make_idx_images(2, 1, 3, "abcdef"));
  folder.write("train-labels-idx1-ubyte.gz", make_gzip(make_idx_labels(std::string("\3\1", 2))));
  const auto set = read_mnist(folder.path(), MnistPart::train);
  ASSERT_TRUE(set.has_value());
  EXPECT_EQ(set->height, 1);
  EXPECT_EQ(set->width, 3);
  EXPECT_THAT(set->labels, ElementsAre(3, 1));
  EXPECT_EQ(as_text(set->image(1)), "def");
  EXPECT_EQ(set->classes.size(), 10u);
  EXPECT_FALSE(read_mnist(folder.path(), MnistPart::test).has_value());
}

TEST(Idx, SaysWhatIsWrong) {
  TempFolder folder;
  const std::string images = make_idx_images(2, 1, 3, "abcdef"), labels = make_idx_labels("\3\1");
  const auto error = [&](const std::string& image_bytes, const std::string& label_bytes) {
    folder.write("train-images-idx3-ubyte", image_bytes);
    folder.write("train-labels-idx1-ubyte", label_bytes);
    return error_of([&] { read_mnist(folder.path(), MnistPart::train); });
  };
  for (size_t size = 0; size < images.size(); ++size)
    EXPECT_THAT(error(images.substr(0, size), labels), HasSubstr("train-images-idx3-ubyte: ")) << size;
  EXPECT_THAT(error(images.substr(0, 20), labels), HasSubstr("promises 6 bytes of images, but 4 follow"));
  EXPECT_THAT(error(images + "x", labels), HasSubstr("but 7 follow"));
  EXPECT_THAT(error(labels, labels), HasSubstr("magic number 0x801 found, 0x803"));
  EXPECT_THAT(error(images, make_idx_labels("\1")), HasSubstr("1 labels found for the 2 images"));
  EXPECT_THAT(error(make_idx_images(0xffffffff, 0xffffffff, 0xffffffff, ""), labels), HasSubstr("over 2^64"));
  EXPECT_THAT(error(make_idx_images(0, 28, 28, ""), labels), HasSubstr("none of these may be 0"));
  const std::string packed = make_gzip(images);
  EXPECT_THAT(error(packed.substr(0, packed.size() - 9), labels), HasSubstr("truncated gzip"));
  std::filesystem::remove(folder.path() / "train-labels-idx1-ubyte");
  EXPECT_THAT(error_of([&] { read_mnist(folder.path(), MnistPart::train); }),
              HasSubstr("images found without its labels"));
}

TEST(Gzip, StopsAtTheLimitAndJoinsMembers) {
  const std::string bomb = make_gzip(std::string(size_t{4} << 20, 'x'));
  const auto span = [](const std::string& text) {
    return std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  EXPECT_THAT(error_of([&] { gunzip(span(bomb), "bomb", size_t{1} << 20); }), HasSubstr("more than 1.0 MiB"));
  const std::string two = make_gzip("ab") + make_gzip("cd");
  EXPECT_EQ(as_text(gunzip(span(two), "two", 100)), "abcd");
}

TEST(Cifar, ReadsBatchesInOrder) {
  TempFolder folder;
  folder.write("data_batch_2.bin", make_cifar({3}));
  folder.write("data_batch_1.bin", make_cifar({1, 9}));
  folder.write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const auto set = read_cifar10(folder.path(), CifarPart::train);
  ASSERT_TRUE(set.has_value());
  EXPECT_THAT(set->labels, ElementsAre(1, 9, 3));
  EXPECT_EQ(set->image(2)[0], 30);
  EXPECT_EQ(set->classes[9], "j");
  EXPECT_FALSE(read_cifar10(folder.path(), CifarPart::test).has_value());
  folder.write("test_batch.bin", make_cifar({1}).substr(0, 3000));
  EXPECT_THAT(error_of([&] { read_cifar10(folder.path(), CifarPart::test); }),
              AllOf(HasSubstr("test_batch.bin"), HasSubstr("3000 bytes found")));
  folder.write("test_batch.bin", make_cifar({1, 10}));
  EXPECT_THAT(error_of([&] { read_cifar10(folder.path(), CifarPart::test); }),
              HasSubstr("label 10 found in record 1"));
}

TEST(ImageFolder, ClassesAndFilesInOrder) {
  TempFolder folder;
  folder.write("dog/b.png", make_png(1, 2, PNG_FORMAT_RGB, {1, 2, 3, 4, 5, 6}));
  folder.write("cat/x.JPG", make_jpeg(1, 2, 1, {100, 100}));
  folder.write("dog/a.png", make_png(1, 2, PNG_FORMAT_GRAY, {7, 8}));
  folder.write("dog/notes.txt", "skipped");
  std::filesystem::create_directory(folder.path() / "empty");
  const auto classes = image_classes(folder.path());
  EXPECT_THAT(classes, ElementsAre("cat", "dog"));
  const ImageSet set = read_image_folder(folder.path(), classes, {});
  EXPECT_THAT(set.labels, ElementsAre(0, 1, 1));
  EXPECT_EQ(set.width, 2);
  EXPECT_EQ(std::vector<uint8_t>(set.image(2).begin(), set.image(2).end()),
            (std::vector<uint8_t>{1, 4, 2, 5, 3, 6}))
      << "planes";
}

TEST(ImageFolder, SizesMustAgreeOrBeBroughtTo) {
  TempFolder folder;
  folder.write("a/1.png", make_png(4, 4, PNG_FORMAT_GRAY, std::vector<uint8_t>(16, 5)));
  folder.write("a/2.png", make_png(2, 6, PNG_FORMAT_GRAY, std::vector<uint8_t>(12, 5)));
  const std::vector<std::string> classes{"a"};
  EXPECT_THAT(error_of([&] { read_image_folder(folder.path(), classes, {}); }),
              AllOf(HasSubstr("2.png"), HasSubstr("6x2 pixels found, 4x4 expected")));
  const ImageSet set = read_image_folder(folder.path(), classes, {.height = 3, .width = 3});
  EXPECT_EQ(set.size(), 2);
  for (const uint8_t pixel : set.pixels) EXPECT_EQ(pixel, 5);
  EXPECT_THAT(error_of([&] { read_image_folder(folder.path(), std::vector<std::string>{"b"}, {}); }),
              HasSubstr("'a' is not among"));
  EXPECT_THAT(error_of([&] {
                read_image_folder(folder.path(), classes, {.height = 3, .width = 3, .limit_bytes = 30});
              }),
              HasSubstr("more than 30 B"));
  folder.write("a/3.jpg", "not an image");
  EXPECT_THAT(error_of([&] { read_image_folder(folder.path(), classes, {.height = 3, .width = 3}); }),
              HasSubstr("3.jpg: neither JPEG nor PNG"));
}

// One image of 3 x 4 pixels, values 1 to 12, and a Batch of one row for it.
std::shared_ptr<const ImageSet> small_set() {
  auto set = std::make_shared<ImageSet>();
  set->channels = 1;
  set->height = 3;
  set->width = 4;
  for (uint8_t i = 1; i <= 12; ++i) set->pixels.push_back(i);
  set->labels = {6};
  return set;
}

std::vector<int> written(const ImageSamples& samples, int64_t epoch) {
  Batch batch;
  batch.tensors.resize(2);
  batch.tensors[0].second.reset(DType::f32, Shape{1, 1, 3, 4});
  batch.tensors[1].second.reset(DType::i32, Shape{1});
  samples.write(epoch, 0, 0, batch);
  EXPECT_EQ(batch.tensors[1].second.values<int32_t>()[0], 6);
  std::vector<int> pixels;
  for (const float value : batch.tensors[0].second.values<float>())
    pixels.push_back(static_cast<int>(std::lround(value * 255)));
  return pixels;
}

// Every augmented image is the padded image cut at some place, mirrored or not; all places come up.
TEST(ImageSamples, CropsAndFlips) {
  const ImageSamples samples(small_set(), {0}, {.crop_padding = 1, .flip = Flip::horizontal, .seed = 5});
  std::map<std::vector<int>, int> expected;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) {
      for (const bool mirrored : {false, true}) {
        std::vector<int> pixels;
        for (int y = 0; y < 3; ++y) {
          for (int x = 0; x < 4; ++x) {
            const int from_y = y + dy, from_x = (mirrored ? 3 - x : x) + dx;
            const bool inside = from_y >= 0 && from_y < 3 && from_x >= 0 && from_x < 4;
            pixels.push_back(inside ? from_y * 4 + from_x + 1 : 0);
          }
        }
        expected[pixels] = 0;
      }
    }
  }
  ASSERT_EQ(expected.size(), 18u);
  for (int64_t epoch = 0; epoch < 1800; ++epoch) {
    const auto it = expected.find(written(samples, epoch));
    ASSERT_NE(it, expected.end()) << epoch;
    ++it->second;
  }
  for (const auto& [pixels, count] : expected) EXPECT_NEAR(count, 100, 50);
  EXPECT_EQ(written(samples, 17), written(samples, 17)) << "a function of the epoch";
}

TEST(ImageSamples, NormalisesByChannel) {
  auto set = std::make_shared<ImageSet>();
  set->channels = 2;
  set->height = set->width = 1;
  set->pixels = {0, 255, 51, 255};
  set->labels = {0, 1};
  const uint32_t both[] = {0, 1};
  const ChannelStatistics measured = measure_channels(*set, both);
  EXPECT_FLOAT_EQ(measured.mean[0], 0.1f);
  EXPECT_FLOAT_EQ(measured.deviation[0], 0.1f);
  EXPECT_FLOAT_EQ(measured.mean[1], 1.0f);
  EXPECT_FLOAT_EQ(measured.deviation[1], 1.0f) << "a constant channel is not divided by zero";
  const ImageSamples samples(set, {1}, {.mean = {0.1f, 0.5f}, .deviation = {0.1f, 0.25f}});
  Batch batch;
  batch.tensors.resize(2);
  batch.tensors[0].second.reset(DType::f32, Shape{1, 2, 1, 1});
  batch.tensors[1].second.reset(DType::i32, Shape{1});
  samples.write(0, 0, 0, batch);
  EXPECT_NEAR(batch.tensors[0].second.values<float>()[0], 1.0f, 1e-6);
  EXPECT_NEAR(batch.tensors[0].second.values<float>()[1], 2.0f, 1e-6);
  EXPECT_THAT(error_of([&] {
                ImageSamples(set, {0}, {.mean = {0, 0, 0}});
              }),
              HasSubstr("3 values given to normalise 2 channels"));
  EXPECT_THAT(error_of([&] { ImageSamples(set, {0}, {.deviation = {0}}); }), HasSubstr("positive"));
}

// By which ranks find that they have different data.
TEST(ImageSet, IsToldApartByPixelsAndByLabels) {
  ImageSet set{.channels = 1, .height = 1, .width = 2, .pixels = {1, 2, 3, 4}, .labels = {0, 1}};
  const uint32_t both[] = {0, 1}, swapped[] = {1, 0}, one[] = {0};
  const uint64_t hash = hash_images(set, both);
  EXPECT_EQ(hash_images(ImageSet(set), both), hash);
  EXPECT_NE(hash_images(set, swapped), hash);
  EXPECT_NE(hash_images(set, one), hash);
  ImageSet other = set;
  other.labels[1] = 0;
  EXPECT_NE(hash_images(other, both), hash);
  other = set;
  other.pixels[3] = 5;
  EXPECT_NE(hash_images(other, both), hash);
  EXPECT_EQ(hash_images(other, one), hash_images(set, one)) << "what is not given does not count";
}

}  // namespace
}  // namespace trireme

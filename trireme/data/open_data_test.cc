// open_data: detection, splits, and the data sets people really have.
#include "trireme/data/open_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "trireme/data/loader.h"
#include "trireme/data/test_files.h"
#include "trireme/data/test_images.h"
#include "trireme/data/test_vocabulary.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string shorts(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += {static_cast<char>(i), static_cast<char>(i >> 8)};
  return bytes;
}

TEST(OpenData, TextIsSplitAtItsEnd) {
  TempFolder folder;
  const auto file = folder.write("a.txt", std::string(900, 'a') + std::string(100, 'b'));
  const OpenedData data = open_data({.path = file.string(), .seq = 16});
  EXPECT_EQ(data.kind, "text");
  EXPECT_EQ(data.vocab, 256);
  EXPECT_EQ(data.input, Shape{16});
  EXPECT_EQ(data.tokenizer->name(), "bytes");
  EXPECT_THAT(data.summary, HasSubstr("900 tokens for training, 100 held out"));
  EXPECT_EQ(data.train->size(), (900 - 16) / 16);
  EXPECT_EQ(data.validation->size(), 7);  // 99 targets in windows of 16
  Loader train(data.train, {.batch = 4});
  Loader validation(data.validation, evaluation(4));
  for (const int32_t id : train.next().at("ids").values<int32_t>()) ASSERT_EQ(id, 'a');
  for (const int32_t id : validation.next().at("ids").values<int32_t>()) ASSERT_EQ(id, 'b');
  EXPECT_EQ(open_data({.path = file.string(), .validation = 0, .seq = 16}).validation, nullptr);
  EXPECT_THAT(error_of([&] { open_data({.path = file.string(), .seq = 900}); }),
              AllOf(HasSubstr("a.txt"), HasSubstr("at least 901 expected")));
  EXPECT_THAT(error_of([&] { open_data({.path = file.string(), .seq = 16, .vocab = 98}); }),
              HasSubstr("token 98 at position 900"));
}

TEST(OpenData, TextWithBpeSeparatesDocuments) {
  TempFolder folder;
  folder.write("bpe/encoder.json", encoder_json_of(vocabulary_of(small_merges())));
  folder.write("bpe/vocab.bpe", vocab_bpe_of(small_merges()));
  folder.write("text/1.txt", "hello");
  folder.write("text/2.txt", "hello");
  const OpenedData data = open_data({.path = (folder.path() / "text").string(),
                                     .validation = 0,
                                     .tokenizer = (folder.path() / "bpe").string(),
                                     .seq = 3});
  EXPECT_EQ(data.vocab, 265);
  Loader loader(data.train, {.batch = 1});
  const auto ids = loader.next().at("ids").values<int32_t>();
  EXPECT_THAT(std::vector<int32_t>(ids.begin(), ids.end()), ElementsAre(259, 264, 259));
}

TEST(OpenData, TokenFoldersBringTheirOwnSplit) {
  TempFolder folder;
  folder.write("train.bin", shorts(50));
  folder.write("val.bin", shorts(20));
  const OpenedData data = open_data({.path = folder.path().string(), .seq = 8});
  EXPECT_EQ(data.kind, "tokens");
  EXPECT_EQ(data.vocab, 50);
  EXPECT_EQ(data.tokenizer, nullptr);
  EXPECT_THAT(data.summary, HasSubstr("50 tokens for training, 20 held out"));
  EXPECT_THAT(
      error_of([&] { open_data({.path = folder.path().string(), .seq = 8, .vocab = 49}); }),
      AllOf(HasSubstr("train.bin"), HasSubstr("token 49 at position 49"), HasSubstr("vocabulary of 49")));
  const OpenedData one = open_data({.path = (folder.path() / "train.bin").string(), .seq = 8});
  EXPECT_THAT(one.summary, HasSubstr("45 tokens for training, 5 held out"));
}

TEST(OpenData, WideTokensBringTheirVocabularyUnlessTheyAreDamaged) {
  TempFolder folder;
  std::vector<int32_t> file(256 + 40, 128255);
  file[0] = 20240801;
  file[1] = 7;
  file[2] = 40;
  const auto bytes = [&] { return std::string(reinterpret_cast<const char*>(file.data()), file.size() * 4); };
  const std::string path = folder.write("a.bin", bytes()).string();
  EXPECT_EQ(open_data({.path = path, .seq = 4}).vocab, 128256);
  file[280] = -2;
  folder.write("a.bin", bytes());
  EXPECT_THAT(error_of([&] { open_data({.path = path, .seq = 4}); }),
              HasSubstr("largest token is 4294967294"));
  EXPECT_THAT(error_of([&] { open_data({.path = path, .seq = 4, .vocab = 128256}); }),
              AllOf(HasSubstr("token 4294967294 at position 24"), HasSubstr("vocabulary of 128256")));
}

TEST(OpenData, ImagesHoldOutAFractionOfEveryKind) {
  TempFolder folder;
  for (int i = 0; i < 100; ++i) {
    folder.write(fmt::format("{}/{}.png", i < 50 ? "a" : "b", i),
                 make_png(1, 1, PNG_FORMAT_GRAY, {static_cast<uint8_t>(i)}));
  }
  const OpenedData data =
      open_data({.path = folder.path().string(), .validation = 0.2, .mean = {0}, .deviation = {1}});
  EXPECT_EQ(data.kind, "images");
  EXPECT_THAT(data.classes, ElementsAre("a", "b"));
  EXPECT_EQ(data.input, (Shape{3, 1, 1}));
  EXPECT_EQ(data.train->size(), 80);
  EXPECT_EQ(data.validation->size(), 20);
  std::vector<int> seen(100);
  int held_out_labels = 0;
  for (const auto& part : {data.train, data.validation}) {
    Loader loader(part, evaluation(part->size()));
    Batch& batch = loader.next();
    for (int64_t i = 0; i < batch.rows; ++i)
      ++seen[static_cast<size_t>(std::lround(batch.at("images").row<float>(i)[0] * 255))];
    if (part == data.validation) {
      for (const int32_t label : batch.at("labels").values<int32_t>()) held_out_labels += label;
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1)) << "each image in exactly one part";
  EXPECT_GT(held_out_labels, 3);
  EXPECT_LT(held_out_labels, 17);
}

// A validation looks at the first batches of the held-out images: all classes must be in them.
TEST(OpenData, HeldOutImagesComeMixed) {
  TempFolder folder;
  for (int i = 0; i < 120; ++i) {
    const char kind = static_cast<char>('a' + i / 40);
    const std::string image = make_png(1, 1, PNG_FORMAT_GRAY, {static_cast<uint8_t>(i)});
    folder.write(fmt::format("one/{}/{}.png", kind, i), image);
    folder.write(fmt::format("two/train/{}/{}.png", kind, i), image);
    folder.write(fmt::format("two/test/{}/{}.png", kind, i), image);
  }
  for (const char* name : {"one", "two"}) {
    const auto first_labels = [&](uint64_t seed) {
      const OpenedData data =
          open_data({.path = (folder.path() / name).string(), .validation = 0.5, .seed = seed});
      Loader loader(data.validation, evaluation(24));
      const auto labels = loader.next().at("labels").values<int32_t>();
      return std::vector<int32_t>(labels.begin(), labels.end());
    };
    const std::vector<int32_t> labels = first_labels(1);
    for (const int32_t label : {0, 1, 2}) EXPECT_GE(std::ranges::count(labels, label), 3) << name;
    EXPECT_EQ(labels, first_labels(2)) << "the same for every run";
  }
}

// Of all rows of a validation, those that only fill up a batch have no target: 0 would be counted as one.
std::vector<int32_t> targets_of_validation(const OpenedData& data, int64_t batch, std::string_view name) {
  Loader loader(data.validation, evaluation(batch));
  std::vector<int32_t> all;
  for (bool last = false; !last;) {
    Batch& rows = loader.next();
    const auto targets = rows.at(name).values<int32_t>();
    all.insert(all.end(), targets.begin(), targets.end());
    last = rows.ends_epoch;
  }
  return all;
}

TEST(OpenData, RowsThatFillUpABatchHaveNoTargets) {
  TempFolder folder;
  const auto text = folder.write("a.txt", std::string(1000, 'a'));  // 100 held out: 99 targets in 7 windows
  const std::vector<int32_t> tokens =
      targets_of_validation(open_data({.path = text.string(), .seq = 16}), 4, "targets");
  EXPECT_EQ(tokens.size(), 2u * 4 * 16);
  EXPECT_EQ(std::ranges::count(tokens, 'a'), 99);
  EXPECT_EQ(std::ranges::count(tokens, kIgnoreTarget), 2 * 4 * 16 - 99);
  for (int i = 0; i < 10; ++i)
    folder.write(fmt::format("images/{}/{}.png", i < 5 ? "a" : "b", i), make_png(1, 1, PNG_FORMAT_GRAY, {9}));
  const std::vector<int32_t> labels = targets_of_validation(
      open_data({.path = (folder.path() / "images").string(), .validation = 0.5}), 4, "labels");
  EXPECT_EQ(labels.size(), 8u);
  EXPECT_EQ(std::ranges::count(labels, 0) + std::ranges::count(labels, 1), 5);
  EXPECT_EQ(std::ranges::count(labels, kIgnoreTarget), 3);
}

TEST(OpenData, AnEmptyClassFolderLeavesImagesImages) {
  TempFolder folder;
  for (const char* kind : {"cat", "dog"})
    folder.write(fmt::format("{}/1.png", kind), make_png(1, 1, PNG_FORMAT_GRAY, {9}));
  std::filesystem::create_directory(folder.path() / "bird");
  const OpenedData data = open_data({.path = folder.path().string(), .validation = 0});
  EXPECT_EQ(data.kind, "images");
  EXPECT_THAT(data.classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(data.summary, HasSubstr("no images in bird"));
}

TEST(OpenData, ImageFoldersWithTrainAndTest) {
  TempFolder folder;
  for (const char* name : {"train/x", "train/y", "test/y"})
    folder.write(std::string(name) + "/1.png", make_png(1, 1, PNG_FORMAT_GRAY, {9}));
  const OpenedData data = open_data({.path = folder.path().string()});
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_EQ(data.validation->size(), 1);
  Loader loader(data.validation, evaluation(1));
  EXPECT_EQ(loader.next().at("labels").values<int32_t>()[0], 1) << "labels are those of the training folders";
}

TEST(OpenData, DetectsMnistAndCifar) {
  TempFolder folder;
  folder.write("m/train-images-idx3-ubyte", make_idx_images(2, 2, 2, "abcdefgh"));
  folder.write("m/train-labels-idx1-ubyte", make_idx_labels("\1\2"));
  EXPECT_EQ(open_data({.path = (folder.path() / "m").string(), .validation = 0.5}).kind, "mnist");
  folder.write("c/data_batch_1.bin", make_cifar({1, 2}));
  folder.write("c/test_batch.bin", make_cifar({3}));
  const OpenedData cifar = open_data({.path = (folder.path() / "c").string()});
  EXPECT_EQ(cifar.kind, "cifar10");
  EXPECT_EQ(cifar.train->size(), 2);
  EXPECT_EQ(cifar.validation->size(), 1);
}

TEST(OpenData, APictureDoesNotMakeAnImageFolder) {
  TempFolder folder;
  folder.write("docs/logo.png", make_png(1, 1, PNG_FORMAT_GRAY, {9}));
  folder.write("assets/photo.png", make_png(1, 1, PNG_FORMAT_GRAY, {9}));
  folder.write("src/main.cc", std::string(500, 'x'));
  EXPECT_EQ(open_data({.path = folder.path().string(), .seq = 8}).kind, "text");
}

TEST(OpenData, Errors) {
  TempFolder folder;
  const auto file = folder.write("input.txt", "some text");
  EXPECT_THAT(error_of([&] { open_data({.kind = "cifar", .path = file.string()}); }),
              HasSubstr("did you mean 'cifar10'?"));
  EXPECT_THAT(error_of([&] { open_data({.path = (folder.path() / "inptu.txt").string()}); }),
              HasSubstr("input.txt?"));
  EXPECT_THAT(error_of([] { open_data({}); }), HasSubstr("data.path is empty"));
  EXPECT_THAT(error_of([&] { open_data({.path = file.string(), .validation = 1}); }),
              HasSubstr("data.validation is 1"));
  EXPECT_THAT(error_of([&] { open_data({.kind = "mnist", .path = file.string()}); }),
              HasSubstr("no MNIST training files found"));
  EXPECT_THAT(error_of([&] { open_data({.kind = "images", .path = file.string()}); }),
              HasSubstr("not a folder"));
  EXPECT_THAT(error_of([&] { open_data({.path = folder.write("x.dat", std::string("a\0b", 3)).string()}); }),
              HasSubstr("cannot tell what kind"));
}

TEST(RealData, Mnist) {
  TRIREME_NEEDS_DATA(path, "mnist");
  const OpenedData data = open_data({.path = path.string()});
  EXPECT_EQ(data.kind, "mnist");
  EXPECT_EQ(data.train->size(), 60000);
  EXPECT_EQ(data.validation->size(), 10000);
  EXPECT_EQ(data.input, (Shape{1, 28, 28}));
  // The mean and deviation that every tutorial quotes.
  const auto& samples = dynamic_cast<const ImageSamples&>(*data.train);
  EXPECT_NEAR(samples.options().mean[0], 0.1307f, 1e-4);
  EXPECT_NEAR(samples.options().deviation[0], 0.3081f, 1e-4);
  Loader loader(data.train, {.batch = 5, .order = SampleOrder::sequential});
  const auto labels = loader.next().at("labels").values<int32_t>();
  EXPECT_THAT(std::vector<int32_t>(labels.begin(), labels.end()), ElementsAre(5, 0, 4, 1, 9));
}

TEST(RealData, CifarJpegFolder) {
  TRIREME_NEEDS_DATA(path, "cifar10_jpeg/train");
  const OpenedData data =
      open_data({.path = path.parent_path().string(), .crop_padding = 4, .flip = Flip::horizontal});
  EXPECT_EQ(data.kind, "images");
  EXPECT_EQ(data.train->size(), 50000);
  EXPECT_EQ(data.validation->size(), 10000);
  EXPECT_EQ(data.input, (Shape{3, 32, 32}));
  EXPECT_EQ(data.classes.size(), 10u);
}

}  // namespace
}  // namespace trireme

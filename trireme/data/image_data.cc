// The sources of image classifiers: MNIST, CIFAR-10 and folders of images.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/data/cifar.h"
#include "trireme/data/data_source.h"
#include "trireme/data/epoch_order.h"
#include "trireme/data/file.h"
#include "trireme/data/idx.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

std::vector<uint32_t> all_of(const ImageSet& images) {
  std::vector<uint32_t> indices(images.labels.size());
  std::iota(indices.begin(), indices.end(), 0u);
  return indices;
}

// Images are stored class by class, and a validation looks at the first ones that are held out; so they come
// in an order drawn by chance, always the same, whatever the seed of the run, so that runs can be compared.
std::vector<uint32_t> shuffled(const ImageSet& images) {
  std::vector<uint32_t> order;
  shuffle_epoch(/*seed=*/stream_id("data.held_out"), 0, std::ssize(images.labels), order);
  return order;
}

void hold_out(double fraction, const ImageSet& images, std::vector<uint32_t>& train,
              std::vector<uint32_t>& held_out) {
  const std::vector<uint32_t> order = shuffled(images);
  const auto count = static_cast<int64_t>(std::llround(static_cast<double>(order.size()) * fraction));
  held_out.assign(order.begin(), order.begin() + count);
  train.assign(order.begin() + count, order.end());
  std::sort(train.begin(), train.end());
}

OpenedData make_image_data(ImageSet images, std::optional<ImageSet> own_held_out,
                           const DataOptions& options) {
  if (own_held_out &&
      (own_held_out->image_bytes() != images.image_bytes() || own_held_out->width != images.width)) {
    throw_error(
        "{}: training images of {}x{}x{} but held-out images of {}x{}x{} found; all must be of one size",
        options.path, images.channels, images.height, images.width, own_held_out->channels,
        own_held_out->height, own_held_out->width);
  }
  auto train = std::make_shared<const ImageSet>(std::move(images));
  std::shared_ptr<const ImageSet> held_out = train;
  std::vector<uint32_t> train_indices = all_of(*train), held_out_indices;
  const bool evaluates = options.use == DataOptions::Use::kEvaluation;
  if (own_held_out) {
    held_out = std::make_shared<const ImageSet>(std::move(*own_held_out));
    held_out_indices = shuffled(*held_out);
  } else if (evaluates) {
    held_out_indices = train_indices;
  } else if (options.validation > 0) {
    hold_out(options.validation, *train, train_indices, held_out_indices);
  }
  if (train_indices.empty())
    throw_error("{}: no image is left for training with data.validation = {}", options.path,
                options.validation);

  ImageSampleOptions plain{.mean = options.mean, .deviation = options.deviation, .seed = options.seed};
  if (options.mean.empty()) {
    ChannelStatistics measured = measure_channels(*train, train_indices);
    plain.mean = std::move(measured.mean);
    plain.deviation = std::move(measured.deviation);
  }
  ImageSampleOptions augmented = plain;
  augmented.crop_padding = options.crop_padding;
  augmented.flip = options.flip;

  OpenedData data;
  data.mean = plain.mean;
  data.deviation = plain.deviation;
  data.classes = held_out->classes.size() > train->classes.size() ? held_out->classes : train->classes;
  data.summary = fmt::format("{}, {}x{}x{}, {} classes",
                             evaluates ? fmt::format("{} images", held_out_indices.size())
                                       : fmt::format("{} images for training, {} held out",
                                                     train_indices.size(), held_out_indices.size()),
                             train->channels, train->height, train->width, data.classes.size());
  data.train_hash = hash_images(*train, train_indices);
  data.validation_hash = hash_images(*held_out, held_out_indices);
  data.train = std::make_shared<ImageSamples>(train, std::move(train_indices), augmented);
  if (!held_out_indices.empty())
    data.validation = std::make_shared<ImageSamples>(held_out, std::move(held_out_indices), plain);
  return data;
}

// Only images of folders come in sizes that must be brought to one.
void refuse_resizing(const DataOptions& options, const ImageSet& images) {
  if (options.folder.height > 0 &&
      (options.folder.height != images.height || options.folder.width != images.width)) {
    throw_error(
        "{}: these images are {}x{}, but data.image_height = {} and data.image_width = {}; they are not "
        "scaled: leave these settings out, or give a folder of image files",
        options.path, images.height, images.width, options.folder.height, options.folder.width);
  }
}

OpenedData open_mnist(const DataOptions& options) {
  std::optional<ImageSet> train =
      fs::is_directory(options.path) ? read_mnist(options.path, MnistPart::train) : std::nullopt;
  if (!train)
    throw_error("{}: no MNIST training files found; {} expected", options.path, kMnistSource.expects);
  refuse_resizing(options, *train);
  return make_image_data(std::move(*train), read_mnist(options.path, MnistPart::test), options);
}

OpenedData open_cifar10(const DataOptions& options) {
  std::optional<ImageSet> train =
      fs::is_directory(options.path) ? read_cifar10(options.path, CifarPart::train) : std::nullopt;
  if (!train)
    throw_error("{}: no CIFAR-10 training files found; {} expected", options.path, kCifar10Source.expects);
  refuse_resizing(options, *train);
  return make_image_data(std::move(*train), read_cifar10(options.path, CifarPart::test), options);
}

// The message about class folders that were skipped; "" if there are none.
std::string note_of_folders_without_images(const fs::path& root, const std::vector<std::string>& classes) {
  std::vector<std::string> without;
  for (const fs::path& entry : sorted_entries(root)) {
    const std::string name = entry.filename().string();
    if (fs::is_directory(entry) && std::ranges::find(classes, name) == classes.end()) without.push_back(name);
  }
  if (without.empty()) return "";
  constexpr size_t kMostNames = 5;
  return fmt::format("; no images in {}{}",
                     join(std::span(without).first(std::min(without.size(), kMostNames)), ", "),
                     without.size() > kMostNames ? ", …" : "");
}

OpenedData open_image_folder(const DataOptions& options) {
  const fs::path root = options.path;
  if (!fs::is_directory(root))
    throw_error("{}: not a folder; {} expected", options.path, kImageFolderSource.expects);
  const bool parts = fs::is_directory(root / "train");
  const fs::path train = parts ? root / "train" : root;
  const std::vector<std::string> classes = options.classes.empty() ? image_classes(train) : options.classes;
  ImageSet images = read_image_folder(train, classes, options.folder);
  std::optional<ImageSet> held_out;
  for (const char* name : {"val", "valid", "validation", "test"}) {
    if (parts && !held_out && fs::is_directory(root / name))
      held_out = read_image_folder(root / name, classes, options.folder);
  }
  OpenedData data = make_image_data(std::move(images), std::move(held_out), options);
  data.summary += note_of_folders_without_images(train, classes);
  return data;
}

bool has_file_starting(const fs::path& folder, std::string_view prefix) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) return true;
  }
  return false;
}

bool detects_mnist(const fs::path& path) {
  return has_file_starting(path, "train-images");
}
bool detects_cifar10(const fs::path& path) {
  return has_file_starting(path, "data_batch_") ||
         has_file_starting(path / "cifar-10-batches-bin", "data_batch_");
}
// Strict, because any project may have pictures in some folder: at least two folders, all with images. One
// without any file may be a class whose images are not there yet.
bool detects_images(const fs::path& path) {
  if (!fs::is_directory(path)) return false;
  const fs::path root = fs::is_directory(path / "train") ? path / "train" : path;
  const auto filled = std::ranges::count_if(sorted_entries(root), [](const fs::path& entry) {
    return fs::is_directory(entry) && !sorted_entries(entry).empty();
  });
  return filled >= 2 && std::ssize(image_classes(root)) == filled;
}

}  // namespace

constinit const DataSource kMnistSource{
    "mnist", "a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte (plain or .gz)",
    detects_mnist, open_mnist};
constinit const DataSource kCifar10Source{"cifar10", "a folder with data_batch_1.bin to data_batch_5.bin",
                                          detects_cifar10, open_cifar10};
constinit const DataSource kImageFolderSource{
    "images", "a folder of <class>/*.jpg, .jpeg or .png, or of train/<class>/ and test/<class>/",
    detects_images, open_image_folder};

}  // namespace trireme

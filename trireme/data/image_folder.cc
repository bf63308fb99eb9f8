// Reading an image folder; see image_folder.h.
#include "trireme/data/image_folder.h"

#include <algorithm>
#include <cctype>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/data/file.h"
#include "trireme/data/image_decode.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxImageBytes = size_t{256} << 20;

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

void append_planes(const Image& image, std::vector<uint8_t>& pixels) {
  const size_t plane = static_cast<size_t>(image.height * image.width), begin = pixels.size();
  pixels.resize(begin + 3 * plane);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < plane; ++i) pixels[begin + c * plane + i] = image.pixels[3 * i + c];
  }
}

void append_image(const fs::path& path, int32_t label, const ImageFolderOptions& options, ImageSet& set) {
  Image image = decode_image(read_file(path, kMaxImageBytes), path.string());
  if (options.height > 0) image = fit_image(image, options.height, options.width);
  if (set.size() == 0) {
    set.channels = 3;
    set.height = image.height;
    set.width = image.width;
  } else if (image.height != set.height || image.width != set.width) {
    throw_error(
        "{}: {}x{} pixels found, {}x{} expected as in the images before it; set data.image_height and "
        "data.image_width to bring all to one size",
        path.string(), image.width, image.height, set.width, set.height);
  }
  if (set.pixels.size() + image.pixels.size() > options.limit_bytes) {
    throw_error("{}: the images need more than {} in memory; use fewer or smaller ones", path.string(),
                format_bytes(options.limit_bytes));
  }
  append_planes(image, set.pixels);
  set.labels.push_back(label);
}

}  // namespace

std::vector<std::string> image_classes(const fs::path& root) {
  std::vector<std::string> classes;
  for (const fs::path& folder : sorted_entries(root)) {
    if (fs::is_directory(folder) && std::ranges::any_of(sorted_entries(folder), is_image))
      classes.push_back(folder.filename().string());
  }
  return classes;
}

ImageSet read_image_folder(const fs::path& root, std::span<const std::string> classes,
                           const ImageFolderOptions& options) {
  ImageSet set;
  set.classes.assign(classes.begin(), classes.end());
  for (const std::string& name : image_classes(root)) {
    const auto found = std::ranges::find(set.classes, name);
    if (found == set.classes.end()) {
      throw_error(
          "{}: class folder '{}' is not among the {} classes of the training images ({}); rename or remove "
          "it",
          root.string(), name, classes.size(),
          join(classes.first(std::min<size_t>(classes.size(), 12)), ", "));
    }
    const auto label = static_cast<int32_t>(found - set.classes.begin());
    for (const fs::path& path : sorted_entries(root / name)) {
      if (!is_image(path)) continue;
      append_image(path, label, options, set);
      set.files.push_back((fs::path(name) / path.filename()).string());
    }
  }
  if (set.size() == 0)
    throw_error("{}: no images found; <class>/*.jpg, .jpeg or .png were expected below this folder",
                root.string());
  return set;
}

}  // namespace trireme

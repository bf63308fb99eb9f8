// Images in folders, one folder per class: <root>/<class>/*.{jpg,jpeg,png}.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "trireme/data/image_set.h"

namespace trireme {

struct ImageFolderOptions {
  int64_t height = 0, width = 0;          // every image is scaled and cropped to this; 0: all must be alike
  size_t limit_bytes = size_t{16} << 30;  // of decoded pixels; they are held in memory
};

// The classes of a root: names of folders that hold images, in byte order. Empty when there are none.
std::vector<std::string> image_classes(const std::filesystem::path& root);

// All images, by class and then by file name. `classes` gives the labels: a folder that is not among them
// is an Error, so that training and held-out images agree on what a label means.
ImageSet read_image_folder(const std::filesystem::path& root, std::span<const std::string> classes,
                           const ImageFolderOptions& options);

}  // namespace trireme

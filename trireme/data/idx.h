// MNIST's IDX files: big-endian magic 0x803 (n, rows, columns) for images and 0x801 (n) for labels, then
// one byte an element; plain or gzipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/data/image_set.h"

namespace trireme {

struct IdxImages {
  int64_t count = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;
};

// Both throw Error when the header is wrong or promises another number of bytes than there is.
IdxImages parse_idx_images(std::span<const uint8_t> bytes, std::string_view name);
std::vector<uint8_t> parse_idx_labels(std::span<const uint8_t> bytes, std::string_view name);

enum class MnistPart { train, test };

// The two files of a part in `folder` ("train-images-idx3-ubyte", with ".gz" or with a dot before "idx3"
// as some copies have it). Nothing when neither is there; Error when only one is or they do not agree.
std::optional<ImageSet> read_mnist(const std::filesystem::path& folder, MnistPart part);

}  // namespace trireme

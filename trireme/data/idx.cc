// IDX parsing and the MNIST file names; see idx.h. Sizes from a header are compared with the bytes at
// hand before anything is allocated.
#include "trireme/data/idx.h"

#include <algorithm>
#include <string>

#include "trireme/base/error.h"
#include "trireme/data/file.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxBytes = size_t{4} << 30;  // unpacked; MNIST has 47 MB
constexpr uint32_t kImagesMagic = 0x803, kLabelsMagic = 0x801;

int64_t big_endian(std::span<const uint8_t> bytes, size_t at) {
  return (int64_t{bytes[at]} << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
}

// Checks magic number and size; returns the extents that the header names.
std::vector<int64_t> parse_header(std::span<const uint8_t> bytes, uint32_t magic, size_t extents,
                                  std::string_view name) {
  const size_t header = 4 + 4 * extents;
  const char* kind = magic == kImagesMagic ? "images" : "labels";
  if (bytes.size() >= 4 && big_endian(bytes, 0) != magic) {
    throw_error("{}: magic number {:#x} found, {:#x} (IDX {}) expected; is it the right file?", name,
                big_endian(bytes, 0), magic, kind);
  }
  if (bytes.size() < header) {
    throw_error("{}: {} bytes found, an IDX header of {} expected; the file is truncated: fetch it again",
                name, bytes.size(), header);
  }
  std::vector<int64_t> result;
  unsigned __int128 elements = 1;  // three factors below 2^32 fit
  for (size_t i = 0; i < extents; ++i) {
    result.push_back(big_endian(bytes, 4 + 4 * i));
    elements *= static_cast<unsigned __int128>(result.back());
  }
  if (elements != bytes.size() - header) {
    throw_error(
        "{}: the header promises {} bytes of {}, but {} follow; the file is truncated or damaged: fetch it "
        "again",
        name,
        elements > UINT64_MAX ? std::string("over 2^64") : std::to_string(static_cast<uint64_t>(elements)),
        kind, bytes.size() - header);
  }
  return result;
}

std::optional<fs::path> find_file(const fs::path& folder, const std::string& stem,
                                  const std::string& suffix) {
  for (const char* separator : {"-", "."}) {
    for (const char* packed : {"", ".gz"}) {
      const fs::path path = folder / (stem + separator + suffix + packed);
      if (fs::exists(path)) return path;
    }
  }
  return std::nullopt;
}

std::vector<uint8_t> read_unpacked(const fs::path& path) {
  std::vector<uint8_t> bytes = read_file(path, kMaxBytes);
  return is_gzip(bytes) ? gunzip(bytes, path.string(), kMaxBytes) : bytes;
}

}  // namespace

IdxImages parse_idx_images(std::span<const uint8_t> bytes, std::string_view name) {
  const std::vector<int64_t> extents = parse_header(bytes, kImagesMagic, 3, name);
  if (*std::ranges::min_element(extents) == 0) {
    throw_error("{}: {} images of {}x{} found; none of these may be 0", name, extents[0], extents[1],
                extents[2]);
  }
  const auto pixels = bytes.subspan(16);
  return {extents[0], extents[1], extents[2], {pixels.begin(), pixels.end()}};
}

std::vector<uint8_t> parse_idx_labels(std::span<const uint8_t> bytes, std::string_view name) {
  parse_header(bytes, kLabelsMagic, 1, name);
  const auto labels = bytes.subspan(8);
  return {labels.begin(), labels.end()};
}

std::optional<ImageSet> read_mnist(const fs::path& folder, MnistPart part) {
  const std::string stem = part == MnistPart::train ? "train" : "t10k";
  const auto images_path = find_file(folder, stem + "-images", "idx3-ubyte");
  const auto labels_path = find_file(folder, stem + "-labels", "idx1-ubyte");
  if (!images_path && !labels_path) return std::nullopt;
  if (!images_path || !labels_path) {
    throw_error(
        "{}: {} found without its {}; both {}-images-idx3-ubyte and {}-labels-idx1-ubyte (or .gz) are needed",
        folder.string(), images_path ? "images" : "labels", images_path ? "labels" : "images", stem, stem);
  }
  IdxImages images = parse_idx_images(read_unpacked(*images_path), images_path->string());
  const std::vector<uint8_t> labels = parse_idx_labels(read_unpacked(*labels_path), labels_path->string());
  if (images.count != static_cast<int64_t>(labels.size())) {
    throw_error("{}: {} labels found for the {} images of {}; the two files do not belong together",
                labels_path->string(), labels.size(), images.count, images_path->string());
  }
  // Ten digits (or kinds of clothes); EMNIST and others with more simply have a larger last label.
  const int classes = std::max(10, *std::ranges::max_element(labels) + 1);
  ImageSet set{1, images.height, images.width, std::move(images.pixels), {labels.begin(), labels.end()}, {}};
  for (int label = 0; label < classes; ++label) set.classes.push_back(std::to_string(label));
  return set;
}

}  // namespace trireme

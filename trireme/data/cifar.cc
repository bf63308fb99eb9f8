// CIFAR-10 binary records and file names; see cifar.h.
#include "trireme/data/cifar.h"

#include <string>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/data/file.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels;
constexpr int kClasses = 10;
constexpr size_t kMaxCifarBytes = size_t{1} << 30;

std::vector<std::string> class_names(const fs::path& folder) {
  std::vector<std::string> names;
  const fs::path path = folder / "batches.meta.txt";
  if (fs::exists(path)) {
    for (std::string line : split(read_text_file(path, size_t{1} << 20), '\n')) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) names.push_back(line);
    }
    if (names.size() == kClasses) return names;
    throw_error("{}: {} class names found, {} expected", path.string(), names.size(), kClasses);
  }
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

}  // namespace

void parse_cifar10(std::span<const uint8_t> bytes, std::string_view name, ImageSet& set) {
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    throw_error(
        "{}: {} bytes found, a positive multiple of {} (label and 3x32x32 pixels) expected; the file is "
        "truncated or not CIFAR-10 binary: fetch it again",
        name, bytes.size(), kRecord);
  }
  set.channels = 3;
  set.height = set.width = 32;
  const size_t records = bytes.size() / kRecord;
  set.pixels.reserve(set.pixels.size() + records * kPixels);
  for (size_t i = 0; i < records; ++i) {
    const auto record = bytes.subspan(i * kRecord, kRecord);
    if (record[0] >= kClasses) {
      throw_error("{}: label {} found in record {}, 0 to 9 expected; is it CIFAR-100, or damaged?", name,
                  record[0], i);
    }
    set.labels.push_back(record[0]);
    set.pixels.insert(set.pixels.end(), record.begin() + 1, record.end());
  }
}

std::optional<ImageSet> read_cifar10(const fs::path& folder, CifarPart part) {
  const fs::path below = folder / "cifar-10-batches-bin";
  const fs::path root = fs::is_directory(below) ? below : folder;
  ImageSet set;
  for (const fs::path& path : sorted_entries(root)) {
    const std::string file = path.filename().string();
    const bool wanted = part == CifarPart::test ? file == "test_batch.bin"
                                                : file.starts_with("data_batch_") && file.ends_with(".bin");
    if (wanted) parse_cifar10(read_file(path, kMaxCifarBytes), path.string(), set);
  }
  if (set.size() == 0) return std::nullopt;
  set.classes = class_names(root);
  return set;
}

}  // namespace trireme

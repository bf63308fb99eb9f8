// CIFAR-10's binary files: records of 3,073 bytes, a label from 0 to 9 and 32x32 pixels as a red, a green
// and a blue plane.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "trireme/data/image_set.h"

namespace trireme {

// Appends the records of one file. Throws Error on a size or label that cannot be.
void parse_cifar10(std::span<const uint8_t> bytes, std::string_view name, ImageSet& set);

enum class CifarPart { train, test };

// data_batch_*.bin or test_batch.bin in `folder` or in cifar-10-batches-bin below it, class names from
// batches.meta.txt where it is there. Nothing when the part has no file.
std::optional<ImageSet> read_cifar10(const std::filesystem::path& folder, CifarPart part);

}  // namespace trireme

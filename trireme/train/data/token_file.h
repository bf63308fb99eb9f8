// Files of 16-bit token ids: llm.c's (256 int32 of header: 20240520, version 1, count; then uint16) and
// nanoGPT's (uint16 without header), little-endian both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "trireme/train/data/token_array.h"

namespace trireme {

struct TokenFileLayout {
  int64_t offset_bytes = 0;  // where the ids begin
  int64_t count = 0;         // ids, exactly as many as the file has room for
};

// Recognises the format by the header's magic number. Throws Error when sizes do not fit the file.
TokenFileLayout parse_token_file(std::span<const uint8_t> bytes, std::string_view name);

// Maps the file; ids are read when they are used.
TokenArray open_token_file(const std::filesystem::path& path);

}  // namespace trireme

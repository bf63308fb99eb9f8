// Files of token ids, little-endian all: llm.c's for GPT-2 (256 int32 of header: 20240520, version 1, count;
// then uint16) and for Llama 3 (20240801, version 7, count; then uint32), and nanoGPT's (uint16, no header).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "trireme/data/token_array.h"

namespace trireme {

struct TokenFileLayout {
  int64_t offset_bytes = 0;  // where the ids begin
  int64_t id_bytes = 2;      // 2 or 4
  int64_t count = 0;         // ids, exactly as many as the file has room for
};

// Recognises the format by the header's magic number. `head`: the first bytes of a file of `size` bytes, at
// least kTokenFileHead of them, or all where it has fewer. Throws Error when sizes do not fit the file.
inline constexpr size_t kTokenFileHead = 3 * sizeof(int32_t);
TokenFileLayout parse_token_file(std::span<const uint8_t> head, int64_t size, std::string_view name);

// Opens the file; ids are read when they are used.
TokenArray open_token_file(const std::filesystem::path& path);

}  // namespace trireme

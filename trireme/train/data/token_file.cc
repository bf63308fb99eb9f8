// The two token file formats; see token_file.h. A headerless file cannot be mistaken for llm.c's: its
// magic number read as ids is 55432, 308, and GPT-2 has no id 55432.
#include "trireme/train/data/token_file.h"

#include <array>
#include <bit>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/train/data/file.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

constexpr int32_t kLlmcMagic = 20240520, kLlmcMagic32 = 20240801;
constexpr int64_t kHeaderBytes = 256 * sizeof(int32_t);

}  // namespace

TokenFileLayout parse_token_file(std::span<const uint8_t> bytes, std::string_view name) {
  const int64_t size = static_cast<int64_t>(bytes.size());
  std::array<int32_t, 3> header{};  // magic, version, count
  if (bytes.size() >= sizeof header) std::memcpy(header.data(), bytes.data(), sizeof header);
  const auto [magic, version, count] = header;
  if (magic == kLlmcMagic32) {
    throw_error(
        "{}: a token file of 32-bit ids (magic {}) found, 16-bit ids (magic {}) expected; tokenize the text "
        "with GPT-2's tokenizer",
        name, kLlmcMagic32, kLlmcMagic);
  }
  if (magic != kLlmcMagic) {
    if (size == 0 || size % 2 != 0) {
      throw_error(
          "{}: {} bytes found, a positive even number expected for 16-bit token ids; the file is truncated "
          "or not a token file",
          name, size);
    }
    return {0, size / 2};
  }
  if (size < kHeaderBytes)
    throw_error("{}: {} bytes found, a header of {} expected; the file is truncated", name, size,
                kHeaderBytes);
  if (version != 1)
    throw_error("{}: token file version {} found, 1 expected; convert the file", name, version);
  const int64_t expected = kHeaderBytes + 2 * static_cast<int64_t>(count);
  if (count < 1 || expected != size) {
    throw_error(
        "{}: the header promises {} tokens ({} bytes in all), but the file has {} bytes; it is truncated or "
        "still being written: make or fetch it again",
        name, count, expected, size);
  }
  return {kHeaderBytes, count};
}

TokenArray open_token_file(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  const TokenFileLayout layout = parse_token_file(file->bytes(), path.string());
  // Pages are aligned and both offsets are even, so the ids are aligned too.
  const auto* ids = reinterpret_cast<const uint16_t*>(file->bytes().data() + layout.offset_bytes);
  return TokenArray::of(std::span(ids, static_cast<size_t>(layout.count)), file, path.string());
}

}  // namespace trireme

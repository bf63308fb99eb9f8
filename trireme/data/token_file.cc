// The token file formats; see token_file.h. A headerless file cannot be mistaken for llm.c's: its magic
// numbers read as ids are 55432, 308 and 55713, 308, and GPT-2 has ids up to 50256 only.
#include "trireme/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/data/file.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read as they are");

constexpr int64_t kHeaderBytes = 256 * sizeof(int32_t);

// llm.c's formats, told apart by the first number of the header.
struct LlmcFormat {
  int32_t magic, version;
  int64_t id_bytes;
};
constexpr LlmcFormat kLlmcFormats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

// NumPy's files of arrays hold numbers too, behind a header and in any width.
constexpr std::string_view kNumpyMagic = "\x93NUMPY";

void refuse_numpy(std::span<const uint8_t> bytes, std::string_view name) {
  if (bytes.size() < kNumpyMagic.size() ||
      std::memcmp(bytes.data(), kNumpyMagic.data(), kNumpyMagic.size()) != 0)
    return;
  throw_error(
      "{}: a NumPy file, with a header before its numbers; bare 16-bit token ids expected. Write them with "
      "numpy.load(…).astype(numpy.uint16).tofile(\"train.bin\")",
      name);
}

// Bare ids of 32 or 64 bits, read as 16-bit ones: the upper halves come out as ids of their own, all of them
// 0 or as small as a vocabulary divided by 65536. No text has such tokens in every other place.
void refuse_wide_ids(std::span<const uint16_t> ids, std::string_view name) {
  constexpr size_t kFewest = 64;  // of which chance would not make this
  if (ids.size() < kFewest) return;
  uint16_t lower = 0, upper = 0;
  for (size_t i = 0; i + 1 < ids.size(); i += 2) {
    lower = std::max(lower, ids[i]);
    upper = std::max(upper, ids[i + 1]);
  }
  if (lower == 0 || !(upper == 0 || (upper < 16 && lower >= 4096))) return;
  throw_error(
      "{}: every other 16-bit number is {}, as in a file of 32-bit or 64-bit ids; bare ids are 16-bit here. "
      "Write them with numpy.fromfile(…, numpy.uint32).astype(numpy.uint16).tofile(\"train.bin\"), or, for "
      "a vocabulary above 65536, with the header of llm.c (20240801, 7, count)",
      name, upper == 0 ? "0" : "very small");
}

TokenFileLayout parse_headerless(int64_t size, std::string_view name) {
  if (size == 0 || size % 2 != 0) {
    throw_error(
        "{}: {} bytes found, a positive even number expected for 16-bit token ids; the file is truncated "
        "or not a token file",
        name, size);
  }
  return {.offset_bytes = 0, .id_bytes = 2, .count = size / 2};
}

}  // namespace

TokenFileLayout parse_token_file(std::span<const uint8_t> head, int64_t size, std::string_view name) {
  refuse_numpy(head, name);
  std::array<int32_t, 3> header{};  // magic, version, count
  static_assert(sizeof header == kTokenFileHead);
  if (head.size() >= sizeof header) std::memcpy(header.data(), head.data(), sizeof header);
  const auto [magic, version, count] = header;
  const auto format = std::ranges::find(kLlmcFormats, magic, &LlmcFormat::magic);
  if (format == std::end(kLlmcFormats)) return parse_headerless(size, name);
  if (size < kHeaderBytes)
    throw_error("{}: {} bytes found, a header of {} expected; the file is truncated", name, size,
                kHeaderBytes);
  if (version != format->version) {
    throw_error("{}: token file version {} found, {} expected after magic {}; convert the file", name,
                version, format->version, magic);
  }
  const int64_t expected = kHeaderBytes + format->id_bytes * count;
  if (count < 1 || expected != size) {
    throw_error(
        "{}: the header promises {} tokens ({} bytes in all), but the file has {} bytes; it is truncated or "
        "still being written: make or fetch it again",
        name, count, expected, size);
  }
  return {kHeaderBytes, format->id_bytes, count};
}

TokenArray open_token_file(const std::filesystem::path& path) {
  auto file = std::make_shared<const DataFile>(path);
  std::array<uint8_t, kTokenFileHead> bytes{};
  const std::span head = std::span(bytes).first(std::min(bytes.size(), file->size()));
  file->read(0, head);
  const TokenFileLayout layout = parse_token_file(head, static_cast<int64_t>(file->size()), path.string());
  if (layout.offset_bytes == 0) {
    std::vector<uint16_t> first(static_cast<size_t>(std::min<int64_t>(layout.count, 4096)));
    file->read(0, {reinterpret_cast<uint8_t*>(first.data()), first.size() * sizeof(uint16_t)});
    refuse_wide_ids(first, path.string());
  }
  return TokenArray::of(std::move(file), layout.offset_bytes, layout.id_bytes, layout.count);
}

}  // namespace trireme

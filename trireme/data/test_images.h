// For tests: JPEG, PNG, IDX and CIFAR files made in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs FILE.
#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "trireme/base/error.h"

namespace trireme {

// A smooth image, so that JPEG keeps it nearly as it is.
inline std::vector<uint8_t> gradient_pixels(int height, int width, int channels) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c)
        pixels.push_back(static_cast<uint8_t>(40 + (c + 1) * 30 + x * 2 + y));
    }
  }
  return pixels;
}

inline std::string make_jpeg(int height, int width, int channels, std::vector<uint8_t> pixels,
                             bool progressive = false) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 98, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + size_t{info.next_scanline} * static_cast<size_t>(width * channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(buffer), size);
  std::free(buffer);
  return bytes;
}

// `format` is one of libpng's PNG_FORMAT_…; a colour map of RGB entries comes with PNG_FORMAT_RGB_COLORMAP.
inline std::string make_png(int height, int width, png_uint_32 format, const std::vector<uint8_t>& pixels,
                            const std::vector<uint8_t>& colours = {}) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  image.colormap_entries = static_cast<png_uint_32>(colours.size() / 3);
  png_alloc_size_t size = 0;
  const void* map = colours.empty() ? nullptr : colours.data();
  TRIREME_CHECK(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, map) != 0);
  std::string bytes(size, '\0');
  TRIREME_CHECK(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, map) != 0);
  bytes.resize(size);
  return bytes;
}

inline std::string big_endian_text(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

inline std::string make_idx_images(uint32_t count, uint32_t height, uint32_t width, std::string_view pixels) {
  return big_endian_text(0x803) + big_endian_text(count) + big_endian_text(height) + big_endian_text(width) +
         std::string(pixels);
}
inline std::string make_idx_labels(std::string_view labels) {
  return big_endian_text(0x801) + big_endian_text(static_cast<uint32_t>(labels.size())) + std::string(labels);
}

inline std::string make_cifar(const std::vector<int>& labels) {
  std::string bytes;
  for (const int label : labels)
    bytes += static_cast<char>(label) + std::string(3072, static_cast<char>(10 * label));
  return bytes;
}

inline std::string make_gzip(std::string_view bytes) {
  z_stream stream{};
  TRIREME_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  TRIREME_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace trireme

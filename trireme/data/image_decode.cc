// Choice of the decoder, and PNG through libpng's simplified interface, which does every conversion and
// returns errors instead of jumping. JPEG is in jpeg.cc.
#include "trireme/data/image_decode.h"

#include <png.h>

#include "trireme/base/error.h"

namespace trireme {

Image decode_image(std::span<const uint8_t> bytes, std::string_view name, int64_t max_pixels) {
  if (bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff)
    return decode_jpeg(bytes, name, max_pixels);
  if (bytes.size() >= 4 && bytes[0] == 0x89 && bytes[1] == 'P' && bytes[2] == 'N' && bytes[3] == 'G')
    return decode_png(bytes, name, max_pixels);
  throw_error("{}: neither JPEG nor PNG (by its first bytes; {} bytes in all); convert or remove it", name,
              bytes.size());
}

Image decode_png(std::span<const uint8_t> bytes, std::string_view name, int64_t max_pixels) {
  struct Reader : png_image {
    Reader() : png_image{} { version = PNG_IMAGE_VERSION; }
    ~Reader() { png_image_free(this); }
  } reader;
  if (!png_image_begin_read_from_memory(&reader, bytes.data(), bytes.size()))
    throw_error("{}: damaged PNG: {}; replace or remove it", name, reader.message);
  Image image{reader.height, reader.width, {}};
  if (image.height * image.width > max_pixels) {
    throw_error("{}: {}x{} pixels found, at most {} expected; scale it down first", name, image.width,
                image.height, max_pixels);
  }
  // Alpha is read and dropped rather than blended: colours then do not depend on an invented background,
  // and images equal those that other tools give for "convert to RGB".
  reader.format = PNG_FORMAT_RGBA;
  std::vector<uint8_t> rgba(PNG_IMAGE_SIZE(reader));
  if (!png_image_finish_read(&reader, nullptr, rgba.data(), 0, nullptr))
    throw_error("{}: damaged PNG: {}; replace or remove it", name, reader.message);
  image.pixels.reserve(rgba.size() / 4 * 3);
  for (size_t i = 0; i < rgba.size(); i += 4)
    image.pixels.insert(image.pixels.end(), {rgba[i], rgba[i + 1], rgba[i + 2]});
  return image;
}

}  // namespace trireme

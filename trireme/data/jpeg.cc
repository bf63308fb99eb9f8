// JPEG through libjpeg, whose error handler may not return: it jumps back (setjmp). Between setjmp and the
// jump nothing with a destructor may be created, so the frame that calls setjmp holds plain data only and
// a C++ Error is thrown after it.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h needs size_t and FILE from the two before it.
#include <jpeglib.h>
// and jerror.h needs jpeglib.h.
#include <jerror.h>

#include "trireme/base/error.h"
#include "trireme/data/image_decode.h"

namespace trireme {
namespace {

struct ErrorManager : jpeg_error_mgr {
  std::jmp_buf target;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void jump_out(j_common_ptr info) {
  auto* manager = static_cast<ErrorManager*>(info->err);
  manager->format_message(info, manager->message);
  std::longjmp(manager->target, 1);
}

// libjpeg fills what is missing of a truncated or damaged image with grey and only warns. Training on
// grey is worse than stopping, so warnings are errors, but for those that leave every pixel intact.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // trace
  const int code = info->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR) return;
  jump_out(info);
}

struct Decoder {
  jpeg_decompress_struct info{};
  ErrorManager errors{};

  Decoder() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = jump_out;
    errors.emit_message = on_message;
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
};

bool read_header(Decoder& decoder, const uint8_t* data, size_t size) {
  if (setjmp(decoder.errors.target) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  jpeg_mem_src(&decoder.info, data, static_cast<unsigned long>(size));
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

bool read_rows(Decoder& decoder, uint8_t* pixels) {
  if (setjmp(decoder.errors.target) != 0) return false;
  decoder.info.out_color_space = JCS_RGB;
  // Fixed methods, so that the same file gives the same pixels on every build of the library.
  decoder.info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&decoder.info);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW row = pixels + size_t{decoder.info.output_scanline} * decoder.info.output_width * 3;
    jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  jpeg_finish_decompress(&decoder.info);
  return true;
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> bytes, std::string_view name, int64_t max_pixels) {
  Decoder decoder;
  if (!read_header(decoder, bytes.data(), bytes.size()))
    throw_error("{}: damaged JPEG: {}; replace or remove it", name, decoder.errors.message);
  const jpeg_decompress_struct& info = decoder.info;
  Image image{static_cast<int64_t>(info.image_height), static_cast<int64_t>(info.image_width), {}};
  if (image.height * image.width > max_pixels) {
    throw_error("{}: {}x{} pixels found, at most {} expected; scale it down first", name, image.width,
                image.height, max_pixels);
  }
  if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK) {
    throw_error("{}: a JPEG in CMYK found, grey or RGB expected; convert it", name);
  }
  image.pixels.resize(static_cast<size_t>(image.height * image.width) * 3);
  if (!read_rows(decoder, image.pixels.data()))
    throw_error("{}: damaged or truncated JPEG: {}; replace or remove it", name, decoder.errors.message);
  return image;
}

}  // namespace trireme

// See page_files.h. The assembler takes the files in as they are (.incbin); they are packed when the first
// one is asked for, which takes 10 ms.
#include "trireme/dashboard/page_files.h"

#include <fmt/format.h>
#include <zlib.h>

#include <map>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

#define TRIREME_TAKE_IN(symbol, file)                                      \
  __asm__(                                                                 \
      ".section .rodata\n"                                                 \
      ".globl trireme_page_" #symbol                                       \
      "\n"                                                                 \
      ".globl trireme_page_" #symbol                                       \
      "_end\n"                                                             \
      "trireme_page_" #symbol ":\n.incbin \"" TRIREME_PAGE_FOLDER "/" file \
      "\"\n"                                                               \
      "trireme_page_" #symbol "_end:\n.byte 0\n.previous\n");              \
  extern "C" const char trireme_page_##symbol[];                           \
  extern "C" const char trireme_page_##symbol##_end[];

// All that are served, but for the frame.
#define TRIREME_PAGE_FILES(with)                                                                            \
  with(style, "page.css") with(uplot_style, "uPlot.css") with(uplot, "uPlot.esm.js")                        \
      with(answers, "answers.js") with(chart, "chart.js") with(comparison, "comparison.js")                 \
          with(dom, "dom.js") with(filter, "filter.js") with(format, "format.js")                           \
              with(heat_map, "heat_map.js") with(main, "main.js") with(place, "place.js")                   \
                  with(plan_view, "plan_view.js") with(run_view, "run_view.js")                             \
                      with(runs_table, "runs_table.js") with(samples, "samples.js") with(steps, "steps.js") \
                          with(timeline_view, "timeline_view.js")

TRIREME_TAKE_IN(frame, "index.html")
TRIREME_PAGE_FILES(TRIREME_TAKE_IN)

namespace trireme::dashboard {
namespace {

std::string gzip(std::string_view text) {
  constexpr int kWindowBits = 15, kGzip = 16, kMemory = 8;
  z_stream stream{};
  TRIREME_CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWindowBits + kGzip, kMemory,
                             Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  TRIREME_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

using PageFiles = std::map<std::string, PageFile, std::less<>>;

PageFiles make_files() {
  PageFiles files;
  const auto add = [&](const char* path, const char* begin, const char* end) {
    const std::string_view name = path, text(begin, static_cast<size_t>(end - begin));
    const char* type = name.ends_with(".css") ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8";
    files[path] = {type, std::string(text), gzip(text),
                   fmt::format("\"{:016x}\"", hash_of(text.data(), text.size()))};
  };
#define TRIREME_SERVE(symbol, file) add("/" file, trireme_page_##symbol, trireme_page_##symbol##_end);
  TRIREME_PAGE_FILES(TRIREME_SERVE)
#undef TRIREME_SERVE
  return files;
}

}  // namespace

const PageFile* find_page_file(std::string_view path) {
  static const PageFiles files = make_files();
  const auto found = files.find(path);
  return found == files.end() ? nullptr : &found->second;
}

std::string_view page_frame() {
  return {trireme_page_frame, static_cast<size_t>(trireme_page_frame_end - trireme_page_frame)};
}

}  // namespace trireme::dashboard

// conv2d_grad_weight: dw[f, c, i, j] sums dy · x over all images and outputs. The images are cut into a
// number of parts that depends on the shape alone; each part has its own sums, added up in order at the
// end, so the bits do not depend on the threads. Within a part, a few images at a time are transposed to
// have their channels innermost and multiplied (sum_products.h).
#include <algorithm>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/conv_geometry.h"
#include "trireme/kernels/cpu/sum_products.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/cpu/workspace.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

// A tile of sums is loaded and stored once per batch of images, which should not show.
constexpr int64_t kOutputsPerBatch = 512;
constexpr int64_t kMostParts = 8;
constexpr int64_t kMostPartBytes = 64 << 20;  // for the sums of all parts together

ConvGeometry geometry_of(const Shape& dy, const Shape& x, const Attrs& attrs) {
  const auto& kernel = attrs.integers("kernel");
  return ConvGeometry::of(x, Shape{dy[1], x[1] / attrs.integer("groups", 1), kernel.at(0), kernel.at(1)},
                          attrs);
}

// How the values under a window are laid out, and how the images are cut.
struct Scheme {
  PixelMajor pixels;                  // of one group
  int64_t segments, segment_columns;  // runs of neighbouring values: of a window row, or of a pixel
  int64_t segment_floats;             // rounded up
  int64_t batch, parts;
  int64_t sums_floats;  // of one part

  explicit Scheme(const ConvGeometry& g) {
    pixels = {g.y.size,
              g.x.size,
              g.channels,
              -g.y.padding,
              -g.x.padding,
              (g.y.out() - 1) * g.y.stride + g.y.span(),
              (g.x.out() - 1) * g.x.stride + g.x.span()};
    segment_columns = g.x.dilation == 1 ? g.x.kernel : 1;
    segments = g.taps() / segment_columns;
    segment_floats =
        (segment_columns * g.channels + kSegmentRounding - 1) / kSegmentRounding * kSegmentRounding;
    sums_floats = g.groups * g.filters * segments * segment_floats;
    batch = std::clamp<int64_t>(kOutputsPerBatch / g.out_plane(), 1, g.images);
    const int64_t room = kMostPartBytes / (sums_floats * static_cast<int64_t>(sizeof(float)));
    parts = std::max<int64_t>(1, std::min({(g.images + batch - 1) / batch, kMostParts, room}));
  }
  int64_t first_image(const ConvGeometry& g, int64_t part) const { return g.images * part / parts; }
};

struct Scratch {
  int64_t* segment_offsets;
  float* sums;
  float* pixels;

  static int64_t slot_floats(const Scheme& s) { return s.batch * s.pixels.floats() + kSegmentRounding; }
  Scratch(Workspace& space, const Scheme& s, int64_t slots)
      : segment_offsets(space.take<int64_t>(s.segments)),
        sums(space.take<float>(s.parts * s.sums_floats)),
        pixels(space.take<float>(slots * slot_floats(s))) {}
};

// Adds up the parts of one filter and puts its weights into the order of dw.
void finish_filter(const ConvGeometry& g, const Scheme& s, float* sums, float* dw) {
  const int64_t count = s.segments * s.segment_floats;
  for (int64_t part = 1; part < s.parts; ++part) {
    const float* const more = sums + part * s.sums_floats;
    for (int64_t i = 0; i < count; ++i) sums[i] += more[i];
  }
  for (int64_t tap = 0; tap < g.taps(); ++tap) {
    const float* const from =
        sums + tap / s.segment_columns * s.segment_floats + tap % s.segment_columns * g.channels;
    for (int64_t c = 0; c < g.channels; ++c) dw[c * g.taps() + tap] = from[c];
  }
}

void run(const KernelContext& context) {
  const ConvGeometry g = geometry_of(context.inputs[0].shape, context.inputs[1].shape, context.attrs);
  const Scheme s(g);
  Workspace space(context.workspace);
  const Scratch scratch(space, s, pool_of(context).threads());
  for (int64_t segment = 0; segment < s.segments; ++segment) {
    const int64_t tap = segment * s.segment_columns;
    const int64_t row = tap / g.x.kernel * g.y.dilation, column = tap % g.x.kernel * g.x.dilation;
    scratch.segment_offsets[segment] = (row * s.pixels.padded_columns + column) * g.channels;
  }

  // More tasks than parts, when there are more threads, by cutting the filters: that repeats the
  // transposing of images, but does not change any sum.
  const int64_t enough = 2 * pool_of(context).threads();
  const int64_t splits = std::clamp<int64_t>(enough / (s.parts * g.groups), 1, (g.filters + 7) / 8);
  for_each_task(&pool_of(context), s.parts * g.groups * splits, [&](int64_t task, int slot) {
    const int64_t split = task % splits, group = task / splits % g.groups, part = task / splits / g.groups;
    float* const pixels = scratch.pixels + slot * Scratch::slot_floats(s);
    const int64_t x_image = g.groups * g.channels * g.in_plane(),
                  dy_image = g.groups * g.filters * g.out_plane();
    const int64_t first = s.first_image(g, part), last = s.first_image(g, part + 1);
    for (int64_t image = first; image < last; image += s.batch) {
      const int64_t count = std::min(s.batch, last - image);
      for (int64_t i = 0; i < count; ++i) {
        to_pixel_major(s.pixels,
                       context.in<float>(1) + (image + i) * x_image + group * g.channels * g.in_plane(),
                       pixels + i * s.pixels.floats());
      }
      sum_products(
          {.images = count,
           .out_rows = g.y.out(),
           .out_columns = g.x.out(),
           .pixels = pixels,
           .image_stride = s.pixels.floats(),
           .row_stride = g.y.stride * s.pixels.padded_columns * g.channels,
           .pixel_stride = g.x.stride * g.channels,
           .segment_offsets = scratch.segment_offsets,
           .segments = s.segments,
           .segment_floats = s.segment_floats,
           .dy = context.in<float>(0) + image * dy_image + group * g.filters * g.out_plane(),
           .dy_image_stride = dy_image,
           .first_filter = g.filters * split / splits,
           .last_filter = g.filters * (split + 1) / splits,
           .sums = scratch.sums + part * s.sums_floats + group * g.filters * s.segments * s.segment_floats,
           .start = image == first ? SumProducts::Start::kZero : SumProducts::Start::kSums});
    }
  });
  pool_of(context).parallel_for(g.groups * g.filters, 4, [&](int64_t begin, int64_t end) {
    for (int64_t filter = begin; filter < end; ++filter) {
      finish_filter(g, s, scratch.sums + filter * s.segments * s.segment_floats,
                    context.out<float>(0) + filter * g.channels * g.taps());
    }
  });
}

size_t workspace_bytes(const KernelShape& shape) {
  Workspace space(nullptr);
  const Scheme s(geometry_of(shape.inputs[0].shape, shape.inputs[1].shape, shape.attrs));
  const Scratch scratch(space, s, shape.threads);
  return space.bytes();
}

}  // namespace

void add_conv2d_grad_weight(KernelTable& table) {
  table.add("conv2d_grad_weight", DType::f32, {run, workspace_bytes});
}

}  // namespace trireme::cpu

// conv2d: each image is laid out with its padding in scratch memory and correlated with the filters
// (correlate.h). Images are the unit of parallel work; when there are few, so are blocks of filters.
// Where there are many channels, 3×3 filters go through Winograd's transform instead.
#include <algorithm>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/conv_geometry.h"
#include "trireme/kernels/cpu/correlate.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/cpu/winograd.h"
#include "trireme/kernels/cpu/workspace.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

PatchLayout patches_of(const ConvGeometry& g) {
  return {.rows = g.y.size,
          .columns = g.x.size,
          .out_rows = g.y.out(),
          .out_columns = g.x.out(),
          .row_step = g.y.stride,
          .column_step = g.x.stride,
          .row_first = -g.y.padding,
          .row_count = g.y.span(),
          .column_first = -g.x.padding,
          .column_pitch = g.x.dilation,
          .column_count = g.x.kernel};
}

constexpr int64_t kTapOrder[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

WinogradConv winograd_of(const ConvGeometry& g) {
  return {.images = g.images,
          .groups = g.groups,
          .channels = g.channels,
          .filters = g.filters,
          .rows = g.y.size,
          .columns = g.x.size,
          .out_rows = g.y.out(),
          .out_columns = g.x.out(),
          .row_first = -g.y.padding,
          .column_first = -g.x.padding,
          .weights = {.filter_stride = g.channels * 9, .channel_stride = 9, .tap_index = kTapOrder},
          .group_weights = g.filters * g.channels * 9};
}
bool takes_winograd(const ConvGeometry& g) {
  return g.is_plain_3x3() && winograd_pays(winograd_of(g));
}

struct Scratch {
  int64_t* taps;
  int64_t* tap_index;
  float* packed;
  float* patches;

  Scratch(Workspace& space, const ConvGeometry& g, int64_t slots)
      : taps(space.take<int64_t>(g.taps())),
        tap_index(space.take<int64_t>(g.taps())),
        packed(space.take<float>(g.weight_elements())),
        patches(space.take<float>(slots * patches_of(g).buffer(g.channels))) {}
};

void run(const KernelContext& context) {
  const ConvGeometry g = ConvGeometry::of(context.inputs[0].shape, context.inputs[1].shape, context.attrs);
  if (takes_winograd(g)) {
    WinogradConv conv = winograd_of(g);
    conv.source = context.in<float>(0);
    conv.weights.weights = context.in<float>(1);
    conv.out = context.out<float>(0);
    return winograd_convolve(conv, pool_of(context), context.workspace);
  }
  const PatchLayout layout = patches_of(g);
  Workspace space(context.workspace);
  const Scratch scratch(space, g, pool_of(context).threads());
  const int64_t blocks = filter_blocks(g.filters);
  const int64_t group_weights = g.filters * g.channels * g.taps();

  for (int64_t i = 0; i < g.y.kernel; ++i) {
    for (int64_t j = 0; j < g.x.kernel; ++j) {
      scratch.taps[i * g.x.kernel + j] = layout.tap(i * g.y.dilation, j);
      scratch.tap_index[i * g.x.kernel + j] = i * g.x.kernel + j;
    }
  }
  pool_of(context).parallel_for(g.groups * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t offset = task / blocks * group_weights;
      const FilterView view{context.in<float>(1) + offset, g.channels * g.taps(), g.taps(),
                            scratch.tap_index};
      pack_filter_block(view, g.filters, g.channels, g.taps(), task % blocks, scratch.packed + offset);
    }
  });

  const int64_t enough = 4 * pool_of(context).threads();
  const int64_t splits = std::clamp<int64_t>(enough / (g.images * g.groups), 1, blocks);
  for_each_task(&pool_of(context), g.images * g.groups * splits, [&](int64_t task, int slot) {
    const int64_t split = task % splits, image_group = task / splits, group = image_group % g.groups;
    const float* const image = context.in<float>(0) + image_group * g.channels * g.in_plane();
    float* const buffer = scratch.patches + slot * layout.buffer(g.channels);
    correlate({.layout = &layout,
               .image = lay_out_patches(layout, image, g.channels, buffer),
               .channels = g.channels,
               .taps = scratch.taps,
               .tap_count = g.taps(),
               .packed = scratch.packed + group * group_weights,
               .filters = g.filters,
               .first_block = blocks * split / splits,
               .last_block = blocks * (split + 1) / splits,
               .out = context.out<float>(0) + image_group * g.filters * g.out_plane()});
  });
}

size_t workspace_bytes(const KernelShape& shape) {
  const ConvGeometry g = ConvGeometry::of(shape.inputs[0].shape, shape.inputs[1].shape, shape.attrs);
  if (takes_winograd(g)) return winograd_workspace_bytes(winograd_of(g), shape.threads);
  Workspace space(nullptr);
  const Scratch scratch(space, g, shape.threads);
  return space.bytes();
}

}  // namespace

void add_conv2d(KernelTable& table) {
  table.add("conv2d", DType::f32, {run, workspace_bytes});
}

}  // namespace trireme::cpu

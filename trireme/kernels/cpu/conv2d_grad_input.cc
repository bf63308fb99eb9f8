// conv2d_grad_input: dx[y, x] sums the dy whose windows cover (y, x). Pixels of one phase of the stride
// (y mod stride, x mod stride) are covered by the same subset of taps, at fixed distances in dy, so each
// phase is a plain correlation of dy with the transposed filters (correlate.h). With a stride of one
// there is a single phase, written in place; otherwise phases are computed apart and then interleaved.
// Where there are many channels, 3×3 filters of stride one go through Winograd's transform instead.
#include <algorithm>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/conv_geometry.h"
#include "trireme/kernels/cpu/correlate.h"
#include "trireme/kernels/cpu/merge_phases.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/cpu/winograd.h"
#include "trireme/kernels/cpu/workspace.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

ConvGeometry geometry_of(const Shape& dy, const Shape& w, const Attrs& attrs) {
  const auto& size = attrs.integers("size");
  return ConvGeometry::of(Shape{dy[0], w[1] * attrs.integer("groups", 1), size.at(0), size.at(1)}, w, attrs);
}

// Whether pixels of a phase are covered by tap k, and by which dy: that at distance offset(…).
bool covers(const WindowDim& dim, int64_t phase, int64_t k) {
  return (phase + dim.padding - k * dim.dilation) % dim.stride == 0;
}
int64_t offset(const WindowDim& dim, int64_t phase, int64_t k) {
  return (phase + dim.padding - k * dim.dilation) / dim.stride;
}

struct OffsetRange {
  int64_t first = 0, last = 0;
  explicit OffsetRange(const WindowDim& dim) {
    bool any = false;
    for (int64_t phase = 0; phase < dim.stride; ++phase) {
      for (int64_t k = 0; k < dim.kernel; ++k) {
        if (!covers(dim, phase, k)) continue;
        const int64_t here = offset(dim, phase, k);
        first = any ? std::min(first, here) : here;
        last = any ? std::max(last, here) : here;
        any = true;
      }
    }
  }
  int64_t count() const { return last - first + 1; }
};

PhaseGrid grid_of(const ConvGeometry& g) {
  return {g.y.size, g.x.size, g.y.stride, g.x.stride};
}

// One layout of dy for all phases.
PatchLayout patches_of(const ConvGeometry& g) {
  const OffsetRange rows(g.y), columns(g.x);
  return {.rows = g.y.out(),
          .columns = g.x.out(),
          .out_rows = grid_of(g).phase_rows(),
          .out_columns = grid_of(g).phase_columns(),
          .row_first = rows.first,
          .row_count = rows.count(),
          .column_first = columns.first,
          .column_count = columns.count()};
}

int64_t merge_floats(const ConvGeometry& g) {
  return grid_of(g).phases() == 1 ? 0 : grid_of(g).phases() * g.channels * patches_of(g).outputs();
}

constexpr int64_t kTapOrder[] = {8, 7, 6, 5, 4, 3, 2, 1, 0};  // the filters turned by half a circle

WinogradConv winograd_of(const ConvGeometry& g) {
  return {.images = g.images,
          .groups = g.groups,
          .channels = g.filters,
          .filters = g.channels,
          .rows = g.y.out(),
          .columns = g.x.out(),
          .out_rows = g.y.size,
          .out_columns = g.x.size,
          .row_first = g.y.padding - 2,
          .column_first = g.x.padding - 2,
          .weights = {.filter_stride = 9, .channel_stride = g.channels * 9, .tap_index = kTapOrder},
          .group_weights = g.filters * g.channels * 9};
}
bool takes_winograd(const ConvGeometry& g) {
  return g.is_plain_3x3() && winograd_pays(winograd_of(g));
}

struct Scratch {
  int64_t* phase_start;  // of each phase in the lists of taps, and their end
  int64_t* taps;
  int64_t* tap_index;
  float* packed;
  float* patches;
  float* phases;

  Scratch(Workspace& space, const ConvGeometry& g, int64_t slots)
      : phase_start(space.take<int64_t>(grid_of(g).phases() + 1)),
        taps(space.take<int64_t>(g.taps())),
        tap_index(space.take<int64_t>(g.taps())),
        packed(space.take<float>(g.weight_elements())),
        patches(space.take<float>(slots * patches_of(g).buffer(g.filters))),
        phases(space.take<float>(slots * merge_floats(g))) {}
};

void list_taps(const ConvGeometry& g, const PatchLayout& layout, const Scratch& scratch) {
  int64_t count = 0, phase = 0;
  for (int64_t py = 0; py < g.y.stride; ++py) {
    for (int64_t px = 0; px < g.x.stride; ++px) {
      scratch.phase_start[phase++] = count;
      for (int64_t i = 0; i < g.y.kernel; ++i) {
        for (int64_t j = 0; j < g.x.kernel; ++j) {
          if (!covers(g.y, py, i) || !covers(g.x, px, j)) continue;
          scratch.taps[count] =
              layout.tap(offset(g.y, py, i) - layout.row_first, offset(g.x, px, j) - layout.column_first);
          scratch.tap_index[count++] = i * g.x.kernel + j;
        }
      }
    }
  }
  scratch.phase_start[phase] = count;
}

void run(const KernelContext& context) {
  const ConvGeometry g = geometry_of(context.inputs[0].shape, context.inputs[1].shape, context.attrs);
  if (takes_winograd(g)) {
    WinogradConv conv = winograd_of(g);
    conv.source = context.in<float>(0);
    conv.weights.weights = context.in<float>(1);
    conv.out = context.out<float>(0);
    return winograd_convolve(conv, pool_of(context), context.workspace);
  }
  const PatchLayout layout = patches_of(g);
  const PhaseGrid grid = grid_of(g);
  Workspace space(context.workspace);
  const Scratch scratch(space, g, pool_of(context).threads());
  // Channels of x are what the correlation calls filters, and filters of w its channels.
  const int64_t blocks = filter_blocks(g.channels);
  const int64_t group_weights = g.filters * g.channels * g.taps();
  const auto packed = [&](int64_t group, int64_t phase) {
    return scratch.packed + group * group_weights + scratch.phase_start[phase] * g.filters * g.channels;
  };
  const auto tap_count = [&](int64_t phase) {
    return scratch.phase_start[phase + 1] - scratch.phase_start[phase];
  };

  list_taps(g, layout, scratch);
  pool_of(context).parallel_for(g.groups * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / blocks;
      for (int64_t phase = 0; phase < grid.phases(); ++phase) {
        const FilterView view{context.in<float>(1) + group * group_weights, g.taps(), g.channels * g.taps(),
                              scratch.tap_index + scratch.phase_start[phase]};
        pack_filter_block(view, g.channels, g.filters, tap_count(phase), task % blocks, packed(group, phase));
      }
    }
  });

  const int64_t enough = 4 * pool_of(context).threads();
  const int64_t splits = std::clamp<int64_t>(enough / (g.images * g.groups), 1, blocks);
  for_each_task(&pool_of(context), g.images * g.groups * splits, [&](int64_t task, int slot) {
    const int64_t split = task % splits, image_group = task / splits, group = image_group % g.groups;
    const float* const dy = context.in<float>(0) + image_group * g.filters * g.out_plane();
    float* const dx = context.out<float>(0) + image_group * g.channels * g.in_plane();
    float* const phases = grid.phases() == 1 ? dx : scratch.phases + slot * merge_floats(g);
    const int64_t phase_stride = g.channels * layout.outputs();
    float* const buffer = scratch.patches + slot * layout.buffer(g.filters);
    const float* const patches = lay_out_patches(layout, dy, g.filters, buffer);
    const int64_t first = blocks * split / splits, last = blocks * (split + 1) / splits;
    for (int64_t phase = 0; phase < grid.phases(); ++phase) {
      correlate({.layout = &layout,
                 .image = patches,
                 .channels = g.filters,
                 .taps = scratch.taps + scratch.phase_start[phase],
                 .tap_count = tap_count(phase),
                 .packed = packed(group, phase),
                 .filters = g.channels,
                 .first_block = first,
                 .last_block = last,
                 .out = phases + phase * phase_stride});
    }
    if (grid.phases() == 1) return;
    const int64_t channel = filter_block_start(g.channels, first);
    merge_phases(grid, phases + channel * layout.outputs(), phase_stride,
                 filter_block_start(g.channels, last) - channel, dx + channel * g.in_plane());
  });
}

size_t workspace_bytes(const KernelShape& shape) {
  const ConvGeometry g = geometry_of(shape.inputs[0].shape, shape.inputs[1].shape, shape.attrs);
  if (takes_winograd(g)) return winograd_workspace_bytes(winograd_of(g), shape.threads);
  Workspace space(nullptr);
  const Scratch scratch(space, g, shape.threads);
  return space.bytes();
}

}  // namespace

void add_conv2d_grad_input(KernelTable& table) {
  table.add("conv2d_grad_input", DType::f32, {run, workspace_bytes});
}

}  // namespace trireme::cpu

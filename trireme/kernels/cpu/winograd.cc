// With d the 4×4 input of a tile, g a filter and m the element-wise product summed over channels,
//   y = Aᵀ m A,  m = Σ_c (G g Gᵀ) ⊙ (Bᵀ d B)
// for the usual B, G, A of F(2, 3). Each of the 16 elements of m is a product of matrices
// [filters, channels] × [channels, tiles], done by correlate.h as a convolution with one tap. Vectors
// run over tiles throughout. A task is a run of tiles whose transforms fit the second-level cache: some
// rows of tiles of one image, or several small images.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/winograd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/copy_row-inl.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/cpu/winograd.h"
#include "trireme/kernels/cpu/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Bᵀ applied to four values.
HWY_INLINE void transform_four(V& a, V& b, V& c, V& d) {
  const V first = hn::Sub(a, c), second = hn::Add(b, c), third = hn::Sub(c, b), fourth = hn::Sub(b, d);
  a = first, b = second, c = third, d = fourth;
}

// Bᵀ d B for the tiles of one padded plane; element k of a tile goes to to[k·stride]. Each row of tiles is
// rounded up to whole vectors, in reading and in writing.
void transform_input(const float* HWY_RESTRICT padded, int64_t pitch, int64_t tile_rows, int64_t tile_columns,
                     int64_t stride, float* HWY_RESTRICT to) {
  const D d;
  for (int64_t row = 0; row < tile_rows; ++row, padded += 2 * pitch, to += tile_columns) {
    for (int64_t t = 0; t < tile_columns; t += hn::Lanes(d)) {
      V v[4][4];
      for (int i = 0; i < 4; ++i) {
        hn::LoadInterleaved2(d, padded + i * pitch + 2 * t, v[i][0], v[i][1]);
        hn::LoadInterleaved2(d, padded + i * pitch + 2 * t + 2, v[i][2], v[i][3]);
      }
      for (int j = 0; j < 4; ++j) transform_four(v[0][j], v[1][j], v[2][j], v[3][j]);
      for (int i = 0; i < 4; ++i) {
        transform_four(v[i][0], v[i][1], v[i][2], v[i][3]);
        for (int j = 0; j < 4; ++j) hn::StoreU(v[i][j], d, to + (4 * i + j) * stride + t);
      }
    }
  }
}

// Aᵀ m A for `tiles` tiles of one filter, as pairs of output rows: the upper rows of all tiles to `upper`
// and the lower ones to `lower`, both rounded up to whole vectors.
void transform_output(const float* HWY_RESTRICT products, int64_t stride, int64_t tiles,
                      float* HWY_RESTRICT upper, float* HWY_RESTRICT lower) {
  const D d;
  for (int64_t t = 0; t < tiles; t += hn::Lanes(d)) {
    V top[4], bottom[4];
    for (int j = 0; j < 4; ++j) {
      const V m0 = hn::LoadU(d, products + j * stride + t),
              m1 = hn::LoadU(d, products + (4 + j) * stride + t);
      const V m2 = hn::LoadU(d, products + (8 + j) * stride + t),
              m3 = hn::LoadU(d, products + (12 + j) * stride + t);
      top[j] = hn::Add(m0, hn::Add(m1, m2));
      bottom[j] = hn::Sub(hn::Sub(m1, m2), m3);
    }
    hn::StoreInterleaved2(hn::Add(top[0], hn::Add(top[1], top[2])), hn::Sub(hn::Sub(top[1], top[2]), top[3]),
                          d, upper + 2 * t);
    hn::StoreInterleaved2(hn::Add(bottom[0], hn::Add(bottom[1], bottom[2])),
                          hn::Sub(hn::Sub(bottom[1], bottom[2]), bottom[3]), d, lower + 2 * t);
  }
}

// Output rows of one filter: pairs of rows of `columns` from upper and lower in turn.
void store_rows(const float* HWY_RESTRICT upper, const float* HWY_RESTRICT lower, int64_t tile_rows,
                int64_t columns, float* HWY_RESTRICT to) {
  for (int64_t row = 0; row < tile_rows; ++row) {
    copy(upper + row * columns, columns, to + 2 * row * columns);
    copy(lower + row * columns, columns, to + (2 * row + 1) * columns);
  }
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {
namespace {

HWY_EXPORT(transform_input);
HWY_EXPORT(transform_output);
HWY_EXPORT(store_rows);

constexpr int64_t kVector = PatchLayout::kVector;
constexpr int64_t kElements = 16;      // of a transformed tile
constexpr int64_t kTilesPerTask = 64;  // four vectors, as many as a tile of correlate.cc holds
constexpr int64_t kFewestChannels = 24;
constexpr int64_t kPaddedPlanes = 8;  // padded before the first of them is read back

// Distance between the 16 elements' matrices of `count` floats. Without the extra line, distances are
// powers of two in the usual networks, and all 16 fall into the same set of the cache.
int64_t element_stride(int64_t count) {
  return count + kVector;
}

// How the tiles of all images are cut into tasks.
struct Cut {
  int64_t tile_rows, tile_columns;  // of an image
  int64_t images, rows;             // of a task, at most: several images only when rows are all of theirs
  int64_t bands, groups_of_images;

  explicit Cut(const WinogradConv& conv) {
    tile_rows = conv.out_rows / 2;
    tile_columns = conv.out_columns / 2;
    rows = std::clamp<int64_t>(kTilesPerTask / tile_columns, 1, tile_rows);
    bands = (tile_rows + rows - 1) / rows;
    const int64_t tiles = tile_rows * tile_columns;
    // Images follow each other without gaps only when they are whole vectors.
    images =
        bands == 1 && tiles % kVector == 0 ? std::clamp<int64_t>(kTilesPerTask / tiles, 1, conv.images) : 1;
    groups_of_images = (conv.images + images - 1) / images;
  }
  int64_t tiles() const { return (images * rows * tile_columns + kVector - 1) / kVector * kVector; }
};

PatchLayout patches_of(const WinogradConv& conv, const Cut& cut, int64_t first_row, int64_t rows) {
  return {.rows = conv.rows,
          .columns = conv.columns,
          .out_rows = rows,
          .out_columns = cut.tile_columns,
          .row_step = 2,
          .column_step = 2,
          .row_first = conv.row_first + 2 * first_row,
          .row_count = 4,
          .column_first = conv.column_first,
          .column_count = 4};
}

int64_t padded_floats(const PatchLayout& patches) {
  return patches.padded_rows() * patches.padded_columns();
}

struct Slot {
  float* padded;
  float* inputs;    // [16][channels][tiles]
  float* products;  // [16][filters][tiles]
  float* rows;      // [2][2·tiles]

  Slot(Workspace& space, const WinogradConv& conv, const Cut& cut)
      : padded(space.take<float>(kPaddedPlanes * padded_floats(patches_of(conv, cut, 0, cut.rows)) +
                                 3 * kVector)),
        inputs(space.take<float>(kElements * element_stride(conv.channels * cut.tiles()))),
        products(space.take<float>(kElements * element_stride(conv.filters * cut.tiles()))),
        rows(space.take<float>(4 * cut.tiles())) {}
};

int64_t packed_floats(const WinogradConv& conv) {
  return kElements * element_stride(conv.filters * conv.channels);
}

// G g Gᵀ of one block of filters, as [16][the order of correlate.h].
void pack_block(const WinogradConv& conv, const float* weights, int64_t block, float* packed) {
  const int64_t first = filter_block_start(conv.filters, block);
  const int64_t count = filter_block_start(conv.filters, block + 1) - first;
  for (int64_t c = 0; c < conv.channels; ++c) {
    for (int64_t f = 0; f < count; ++f) {
      const float* const w =
          weights + (first + f) * conv.weights.filter_stride + c * conv.weights.channel_stride;
      float half[4][3];  // G g
      for (int j = 0; j < 3; ++j) {
        const float g0 = w[conv.weights.tap_index[j]], g1 = w[conv.weights.tap_index[3 + j]];
        const float g2 = w[conv.weights.tap_index[6 + j]];
        half[0][j] = g0;
        half[1][j] = 0.5f * (g0 + g1 + g2);
        half[2][j] = 0.5f * (g0 - g1 + g2);
        half[3][j] = g2;
      }
      float* to = packed + (first * conv.channels + c * count + f);
      const int64_t element = element_stride(conv.filters * conv.channels);
      for (int i = 0; i < 4; ++i, to += 4 * element) {
        to[0] = half[i][0];
        to[element] = 0.5f * (half[i][0] + half[i][1] + half[i][2]);
        to[2 * element] = 0.5f * (half[i][0] - half[i][1] + half[i][2]);
        to[3 * element] = half[i][2];
      }
    }
  }
}

struct Task {
  int64_t group, first_image, images, first_row, rows;
};

void run_task(const WinogradConv& conv, const Cut& cut, const Task& task, const float* packed,
              const Slot& slot) {
  const PatchLayout layout = patches_of(conv, cut, task.first_row, task.rows);
  const int64_t image_tiles = task.rows * cut.tile_columns;
  const int64_t tiles = (task.images * image_tiles + kVector - 1) / kVector * kVector;
  const int64_t input_stride = element_stride(conv.channels * tiles);
  const int64_t product_stride = element_stride(conv.filters * tiles);
  // Planes are transformed in the order of their place in `inputs`, so that the tiles that were rounded
  // up are overwritten by the next plane, or lie in the extra line after an element.
  const int64_t planes = conv.channels * task.images, pitch = layout.padded_columns();
  for (int64_t first = 0; first < planes; first += kPaddedPlanes) {
    const int64_t last = std::min(planes, first + kPaddedPlanes);
    for (int64_t plane = first; plane < last; ++plane) {
      const int64_t image = (task.first_image + plane % task.images) * conv.groups + task.group;
      const int64_t channel = image * conv.channels + plane / task.images;
      pad_plane(layout, conv.source + channel * conv.rows * conv.columns,
                slot.padded + (plane - first) * padded_floats(layout));
    }
    for (int64_t plane = first; plane < last; ++plane) {
      HWY_DYNAMIC_DISPATCH(transform_input)
      (slot.padded + (plane - first) * padded_floats(layout), pitch, task.rows, cut.tile_columns,
       input_stride, slot.inputs + plane / task.images * tiles + plane % task.images * image_tiles);
    }
  }
  const PatchLayout matrix{.rows = 1, .columns = tiles, .out_rows = 1, .out_columns = tiles};
  const int64_t no_tap = 0;
  for (int64_t k = 0; k < kElements; ++k) {
    correlate({.layout = &matrix,
               .image = slot.inputs + k * input_stride,
               .channels = conv.channels,
               .taps = &no_tap,
               .tap_count = 1,
               .packed = packed + k * element_stride(conv.filters * conv.channels),
               .filters = conv.filters,
               .first_block = 0,
               .last_block = filter_blocks(conv.filters),
               .out = slot.products + k * product_stride});
  }
  float *const upper = slot.rows, *const lower = slot.rows + 2 * tiles;
  for (int64_t f = 0; f < conv.filters; ++f) {
    HWY_DYNAMIC_DISPATCH(transform_output)
    (slot.products + f * tiles, product_stride, task.images * image_tiles, upper, lower);
    for (int64_t i = 0; i < task.images; ++i) {
      const int64_t image = (task.first_image + i) * conv.groups + task.group;
      float* const out =
          conv.out + ((image * conv.filters + f) * conv.out_rows + 2 * task.first_row) * conv.out_columns;
      HWY_DYNAMIC_DISPATCH(store_rows)
      (upper + 2 * i * image_tiles, lower + 2 * i * image_tiles, task.rows, conv.out_columns, out);
    }
  }
}

}  // namespace

bool winograd_pays(const WinogradConv& conv) {
  const int64_t tiles = conv.out_rows / 2 * (conv.out_columns / 2);
  return conv.channels >= kFewestChannels && conv.filters >= kFewestChannels && conv.out_rows % 2 == 0 &&
         conv.out_columns % 2 == 0 && (tiles % kVector == 0 || tiles >= 3 * kVector);
}

size_t winograd_workspace_bytes(const WinogradConv& conv, int threads) {
  const Cut cut(conv);
  Workspace space(nullptr), slot_space(nullptr);
  space.take<float>(conv.groups * packed_floats(conv));
  const Slot slot(slot_space, conv, cut);
  return space.bytes() + static_cast<size_t>(threads) * slot_space.bytes();
}

void winograd_convolve(const WinogradConv& conv, ThreadPool& pool, std::byte* workspace) {
  const Cut cut(conv);
  Workspace space(workspace);
  float* const packed = space.take<float>(conv.groups * packed_floats(conv));
  const int64_t group_packed = packed_floats(conv);
  const int64_t blocks = filter_blocks(conv.filters);
  pool.parallel_for(conv.groups * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / blocks;
      pack_block(conv, conv.weights.weights + group * conv.group_weights, task % blocks,
                 packed + group * group_packed);
    }
  });
  for_each_task(&pool, conv.groups * cut.groups_of_images * cut.bands, [&](int64_t index, int slot) {
    Workspace one(nullptr);
    const Slot size(one, conv, cut);
    Workspace mine(workspace + space.bytes() + static_cast<size_t>(slot) * one.bytes());
    Task task;
    task.group = index % conv.groups;
    task.first_row = index / conv.groups % cut.bands * cut.rows;
    task.rows = std::min(cut.rows, cut.tile_rows - task.first_row);
    task.first_image = index / conv.groups / cut.bands * cut.images;
    task.images = std::min(cut.images, conv.images - task.first_image);
    run_task(conv, cut, task, packed + task.group * group_packed, Slot(mine, conv, cut));
  });
}

}  // namespace trireme::cpu
#endif

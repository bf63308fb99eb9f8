// How a matrix product is cut up and shared out; see gemm.h. Two ways:
// - together: B is packed once, by all threads, and then rectangles of C are computed by whoever is free;
// - apart: with enough matrices in the batch (or chunks of a long sum) each is one thread's own product.
// The choice and the sizes of rectangles may depend on the number of threads, because they do not change
// the order in which an element is summed. Blocks of k and chunks do, and follow from the shape alone.
#include "trireme/kernels/cpu/gemm.h"

#include <algorithm>

#include "trireme/kernels/cpu/gemm_blocks.h"
#include "trireme/kernels/cpu/tasks.h"

namespace trireme::cpu {
namespace {

constexpr int64_t kBlockK = 384;                     // a tile's panels of A and B of this length fit L1
constexpr int64_t kPackedFloats = int64_t{2} << 20;  // of B at a time
constexpr int64_t kPartFloats = 1 << 18;             // of B in a rectangle: they stay in L2
constexpr int64_t kPartPanels = 8;                   // panels of A in a rectangle: they stay in L2
constexpr int64_t kPackPanels = 4;                   // of a transposed B, packed by one thread at a time
constexpr int64_t kPackRows = 64;
constexpr int64_t kPartsPerThread = 4;            // wanted, for balance
constexpr int64_t kSmallWork = int64_t{1} << 17;  // multiplications that are not worth waking threads for
constexpr int64_t kSmallOutput = 32768;           // elements of C; below it long sums are cut
constexpr int64_t kChunkK = 4096;
constexpr int64_t kMaxChunks = 16;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

// Blocks of about kBlockK, all of one length but the last.
KRange blocked(int64_t begin, int64_t end) {
  const int64_t length = std::max<int64_t>(end - begin, 1);
  return {begin, end, std::min(length, round_up(ceil_div(length, ceil_div(length, kBlockK)), 8))};
}

// How many chunks of k are summed apart.
int64_t chunk_count(const Gemm& g) {
  if (g.m * g.n > kSmallOutput || g.batch >= kMaxChunks) return 1;
  return std::clamp<int64_t>(g.k / kChunkK, 1, kMaxChunks);
}
KRange chunk_range(const Gemm& g, int64_t chunk, int64_t chunks) {
  return blocked(g.k * chunk / chunks, g.k * (chunk + 1) / chunks);
}

// The shape of the work on one matrix over one range of k, by `threads` threads together.
struct Together {
  int64_t k_length;  // of B packed at a time, a multiple of k.step
  int64_t cols;      // of B packed at a time
  int64_t part_rows;
  int64_t part_cols;
  // B is read where it lies when there is one panel of A only, and packing would cost as much as the product.
  bool direct;
  int64_t a_floats;  // per thread, and for one panel of B at the right edge
  int64_t b_floats;

  Together(const Gemm& g, KRange k, int threads) {
    const TileSize tile = tile_size();
    k_length = std::min(k.end - k.begin, std::max<int64_t>(kPackedFloats / tile.cols / k.step, 1) * k.step);
    cols = std::max<int64_t>(kPackedFloats / std::max<int64_t>(k_length, 1) / tile.cols, 1) * tile.cols;
    cols = std::min(cols, round_up(g.n, tile.cols));
    const int64_t panels = ceil_div(g.m, tile.rows);
    direct =
        panels == 1 && g.b.transpose == Transpose::kNo && !g.b.fill && g.use.along != GemmUse::Along::kSum;
    if (direct) {
      k_length = k.end - k.begin;
      cols = round_up(g.n, tile.cols);
    }
    part_rows = ceil_div(g.m, ceil_div(panels, kPartPanels));
    part_cols = std::min(cols, std::max<int64_t>(kPartFloats / k.step / tile.cols, 1) * tile.cols);
    part_cols = round_up(ceil_div(cols, ceil_div(cols, part_cols)), tile.cols);
    if (threads > 1) {
      const int64_t wanted = kPartsPerThread * threads;
      const int64_t across = ceil_div(wanted, ceil_div(g.m, part_rows));
      part_cols = std::min(part_cols, round_up(ceil_div(cols, across), tile.cols));
    }
    a_floats = round_up(packed_a_floats(part_rows, k.step), 16) + (direct ? k.step * tile.cols : 0);
    b_floats = direct ? 0 : round_up(cols * k_length, 16);
  }
  int64_t floats(int threads) const { return b_floats + threads * a_floats; }
};

struct Target {
  float* c;
  int64_t stride;
  Accumulate accumulate;
  GemmPart::Epilogue epilogue;
};

void multiply_together(const Gemm& g, int64_t batch, KRange k, const Target& target, ThreadPool* pool,
                       float* workspace) {
  if (used_in(g.use, GemmUse::Along::kRows, batch, 0, g.m) == 0) return;
  const int threads = pool ? pool->threads() : 1;
  const Together size(g, k, threads);
  const int64_t tile_cols = tile_size().cols;
  float* packed_b = workspace;
  float* packed_a = workspace + size.b_floats;
  for (int64_t col = 0; col < g.n; col += size.cols) {
    const int64_t cols = std::min(size.cols, g.n - col);
    for (int64_t begin = k.begin; begin < k.end; begin += size.k_length) {
      const KRange now{begin, std::min(begin + size.k_length, k.end), k.step};
      const int64_t length = now.end - now.begin;
      // In pieces that are long in memory: some rows of B, or some columns of a transposed one.
      const bool rows = g.b.transpose == Transpose::kNo && !g.b.fill;
      const int64_t pack_k = rows ? kPackRows : length, pack_cols = rows ? cols : kPackPanels * tile_cols;
      const int64_t pieces = ceil_div(length, pack_k);
      for_each_task(pool, size.direct ? 0 : pieces * ceil_div(cols, pack_cols), [&](int64_t task, int) {
        const int64_t from = task % pieces * pack_k, first = task / pieces * pack_cols;
        const GemmBlock block{batch, begin + from, std::min(pack_k, length - from), col + first,
                              std::min(pack_cols, cols - first)};
        pack_b(g, block, now, packed_b + first * length);
      });
      const int64_t down = ceil_div(g.m, size.part_rows), across = ceil_div(cols, size.part_cols);
      for_each_task(pool, down * across, [&](int64_t task, int slot) {
        GemmPart part;
        part.batch = batch;
        part.k = now;
        const int64_t row = task % down * size.part_rows;  // down first, so that the part of B stays in cache
        const int64_t first = task / down * size.part_cols;
        part.col = col + first;
        part.cols = std::min(size.part_cols, cols - first);
        part.packed_b = size.direct ? nullptr : packed_b + first * length;
        part.packed_a = packed_a + slot * size.a_floats;
        part.c_stride = target.stride;
        part.accumulate = begin > k.begin ? Accumulate::kYes : target.accumulate;
        part.epilogue = now.end == k.end ? target.epilogue : GemmPart::Epilogue::kNone;
        for_each_run(g.use, GemmUse::Along::kRows, batch, row, std::min(row + size.part_rows, g.m),
                     [&](int64_t from, int64_t count) {
                       part.row = from;
                       part.rows = count;
                       part.c = target.c + from * target.stride + part.col;
                       compute_part(g, part);
                     });
      });
    }
  }
}

bool apart(const Gemm& g, int64_t chunks, int threads) {
  const int64_t tasks = g.batch * chunks;
  return chunks > 1 || threads == 1 || tasks % threads == 0 || tasks >= 8 * threads;
}

// Floats for one matrix over the longest chunk.
int64_t matrix_floats(const Gemm& g, int64_t chunks, int threads) {
  int64_t most = 0;
  for (int64_t s = 0; s < chunks; ++s) {
    most = std::max(most, Together(g, chunk_range(g, s, chunks), threads).floats(threads));
  }
  return most;
}

void multiply(const Gemm& g, ThreadPool* pool, std::byte* workspace) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  const auto is_used = [&](int64_t batch, int64_t row) {
    return used_in(g.use, GemmUse::Along::kRows, batch, row, row + 1) > 0;
  };
  if (g.k == 0) {
    for (int64_t i = 0; i < g.batch * g.m; ++i) {
      if (is_used(i / g.m, i % g.m)) combine_chunks(g, i / g.m, i % g.m, nullptr, 0, 0);
    }
    return;
  }
  if (g.batch * g.m * g.n * g.k < kSmallWork) pool = nullptr;
  auto* floats = reinterpret_cast<float*>(workspace);
  const int threads = pool ? pool->threads() : 1;
  const int64_t chunks = chunk_count(g);
  const auto whole = [&](int64_t batch) {
    return Target{g.c + batch * g.c_batch_stride, g.c_stride, g.accumulate, GemmPart::Epilogue::kApply};
  };
  if (!apart(g, chunks, threads)) {
    for (int64_t batch = 0; batch < g.batch; ++batch) {
      multiply_together(g, batch, blocked(0, g.k), whole(batch), pool, floats);
    }
    return;
  }
  const int64_t each = matrix_floats(g, chunks, 1);
  if (chunks == 1) {
    for_each_task(pool, g.batch, [&](int64_t batch, int slot) {
      multiply_together(g, batch, blocked(0, g.k), whole(batch), nullptr, floats + slot * each);
    });
    return;
  }
  float* partial = floats + threads * each;
  const int64_t size = g.m * g.n;
  for_each_task(pool, g.batch * chunks, [&](int64_t task, int slot) {
    const Target target{partial + task * size, g.n, Accumulate::kNo, GemmPart::Epilogue::kNone};
    multiply_together(g, task / chunks, chunk_range(g, task % chunks, chunks), target, nullptr,
                      floats + slot * each);
  });
  for_each_task(pool, g.batch * g.m, [&](int64_t task, int) {
    const int64_t batch = task / g.m, row = task % g.m;
    if (is_used(batch, row))
      combine_chunks(g, batch, row, partial + batch * chunks * size + row * g.n, chunks, size);
  });
}

}  // namespace

size_t gemm_workspace_bytes(const Gemm& g, int threads) {
  if (g.m == 0 || g.n == 0 || g.k == 0 || g.batch == 0) return 0;
  const int64_t chunks = chunk_count(g);
  int64_t floats;
  if (!apart(g, chunks, threads)) {
    floats = matrix_floats(g, 1, threads);
  } else {
    floats = threads * matrix_floats(g, chunks, 1) + (chunks > 1 ? g.batch * chunks * g.m * g.n : 0);
  }
  return static_cast<size_t>(floats) * sizeof(float);
}

void gemm(const Gemm& g, ThreadPool& pool, std::byte* workspace) {
  multiply(g, &pool, workspace);
}
void gemm(const Gemm& g, std::byte* workspace) {
  multiply(g, nullptr, workspace);
}

}  // namespace trireme::cpu

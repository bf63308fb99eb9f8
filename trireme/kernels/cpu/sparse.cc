// top_k, scatter_add and clear_at. Magnitudes are compared as the bits of the float without its sign, which
// order as the numbers do, NaN last. A first pass counts how many elements there are of each upper half of
// those bits; a second one notes the few that may be among the largest, and only these are looked at more
// closely.
#include <algorithm>
#include <bit>
#include <cstring>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/cpu/workspace.h"

namespace trireme::cpu {
namespace {

constexpr int kBins = 2048, kShift = 20;  // 31 bits are 11 and 20
constexpr int64_t kChunk = 32768;         // elements that one thread looks at, and notes, at a time

uint32_t magnitude(float x) {
  return std::bit_cast<uint32_t>(x) & 0x7fffffffu;
}

struct TopKSpace {
  TopKSpace(std::byte* memory, int64_t elements, int slots) {
    Workspace space(memory);
    chunks = (elements + kChunk - 1) / kChunk;
    counts = space.take<uint32_t>(int64_t{kBins} * slots);
    noted = space.take<int32_t>(elements);
    noted_count = space.take<int32_t>(chunks);
    bytes = space.bytes();
  }
  int64_t chunks;
  uint32_t* counts;      // per thread, of each bin
  int32_t* noted;        // indices, those of a chunk where the chunk begins
  int32_t* noted_count;  // of each chunk
  size_t bytes;
};

// How the k largest are told: magnitudes above `least`, and of those equal to it the first `ties`.
struct Selection {
  uint32_t least;
  int64_t ties;
};

class TopK {
 public:
  explicit TopK(const KernelContext& context)
      : pool_(pool_of(context)),
        x_(context.in<float>(0)),
        n_(context.inputs[0].elements()),
        k_(context.outputs[0].elements()),
        space_(context.workspace, n_, pool_.threads()) {}

  void run(float* values, int32_t* indices, float* rest) {
    if (rest != x_) copy_to(rest);
    if (k_ == 0) return;
    const Selection selection = select();
    int64_t found = 0, ties = selection.ties;
    for_each_noted([&](int32_t index) {
      const uint32_t here = magnitude(x_[index]);
      if (here < selection.least || (here == selection.least && ties-- <= 0)) return;
      values[found] = x_[index];
      indices[found++] = index;
    });
    TRIREME_CHECK(found == k_);
    for (int64_t i = 0; i < k_; ++i) rest[indices[i]] = 0;
  }

 private:
  void copy_to(float* rest) {
    pool_.parallel_for(n_, kElementGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(rest + begin, x_ + begin, (end - begin) * sizeof(float));
    });
  }

  template <typename Body>
  void for_each_noted(const Body& body) const {
    for (int64_t chunk = 0; chunk < space_.chunks; ++chunk) {
      for (int32_t i = 0; i < space_.noted_count[chunk]; ++i) body(space_.noted[chunk * kChunk + i]);
    }
  }

  // The bin from the top of which the k-th largest is in; `wanted` becomes its number there.
  static uint32_t bin_of(const uint32_t* counts, int64_t& wanted) {
    uint32_t bin = kBins - 1;
    for (; counts[bin] < wanted; --bin) {
      wanted -= counts[bin];
      TRIREME_CHECK(bin > 0u);
    }
    return bin;
  }

  Selection select() {
    std::fill_n(space_.counts, int64_t{kBins} * pool_.threads(), 0u);
    for_each_task(&pool_, space_.chunks, [&](int64_t chunk, int slot) {
      uint32_t* counts = space_.counts + int64_t{kBins} * slot;
      for (int64_t i = chunk * kChunk, end = std::min(n_, i + kChunk); i < end; ++i)
        ++counts[magnitude(x_[i]) >> kShift];
    });
    for (int slot = 1; slot < pool_.threads(); ++slot) {
      for (int bin = 0; bin < kBins; ++bin) space_.counts[bin] += space_.counts[int64_t{kBins} * slot + bin];
    }
    int64_t wanted = k_;
    const uint32_t bin = bin_of(space_.counts, wanted);
    note(bin << kShift);
    // The lower 20 bits in two turns of 10.
    uint32_t least = bin << kShift;
    for (const int shift : {10, 0}) {
      std::fill_n(space_.counts, kBins, 0u);
      for_each_noted([&](int32_t index) {
        const uint32_t here = magnitude(x_[index]);
        if ((here ^ least) >> (shift + 10) == 0) ++space_.counts[(here >> shift) & 1023];
      });
      least |= bin_of(space_.counts, wanted) << shift;
    }
    return {least, wanted};
  }

  // Those of at least this magnitude.
  void note(uint32_t least) {
    pool_.parallel_for(space_.chunks, 1, [&](int64_t first, int64_t last) {
      for (int64_t chunk = first; chunk < last; ++chunk) {
        int32_t* noted = space_.noted + chunk * kChunk;
        int32_t count = 0;
        for (int64_t i = chunk * kChunk, end = std::min(n_, i + kChunk); i < end; ++i) {
          noted[count] = static_cast<int32_t>(i);  // stays where the next does not take its place
          count += magnitude(x_[i]) >= least;
        }
        space_.noted_count[chunk] = count;
      }
    });
  }

  ThreadPool& pool_;
  const float* x_;
  int64_t n_, k_;
  TopKSpace space_;
};

void top_k(const KernelContext& context) {
  TopK(context).run(context.out<float>(0), context.out<int32_t>(1), context.out<float>(2));
}

size_t top_k_workspace(const KernelShape& shape) {
  return TopKSpace(nullptr, shape.inputs[0].shape.elements(), shape.threads).bytes;
}

// Calls body(i) for the places of a row's indices that lie in [begin, end).
template <typename Body>
void for_indices_within(const int32_t* indices, int64_t count, int64_t begin, int64_t end, const Body& body) {
  const int32_t* from = std::lower_bound(indices, indices + count, begin);
  for (int64_t i = from - indices; i < count && indices[i] < end; ++i) {
    if (indices[i] >= begin) body(i);
  }
}

void scatter_add(const KernelContext& context) {
  const int64_t rows = context.inputs[0].shape[0], k = context.inputs[0].shape[1];
  const float* values = context.in<float>(0);
  const int32_t* indices = context.in<int32_t>(1);
  float* y = context.out<float>(0);
  pool_of(context).parallel_for(
      context.outputs[0].elements(), kElementGrain, [&](int64_t begin, int64_t end) {
        std::fill(y + begin, y + end, 0.0f);
        for (int64_t row = 0; row < rows; ++row) {
          const int32_t* of_row = indices + row * k;
          for_indices_within(of_row, k, begin, end, [&](int64_t i) { y[of_row[i]] += values[row * k + i]; });
        }
      });
}

void clear_at(const KernelContext& context) {
  const float* x = context.in<float>(0);
  const int32_t* indices = context.in<int32_t>(1);
  float* y = context.out<float>(0);
  pool_of(context).parallel_for(context.outputs[0].elements(), kElementGrain,
                                [&](int64_t begin, int64_t end) {
                                  if (x != y)
                                    std::memcpy(y + begin, x + begin, (end - begin) * sizeof(float));
                                  for_indices_within(indices, context.inputs[1].elements(), begin, end,
                                                     [&](int64_t i) { y[indices[i]] = 0; });
                                });
}

}  // namespace

void add_sparse(KernelTable& table) {
  table.add("top_k", DType::f32, {.run = top_k, .workspace_bytes = top_k_workspace});
  table.add("scatter_add", DType::f32, {scatter_add});
  table.add("clear_at", DType::f32, {clear_at});
}

}  // namespace trireme::cpu

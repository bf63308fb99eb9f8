// top_k, scatter_add and clear_at. Magnitudes are compared as the bits of the float without its sign, which
// order as the numbers do, NaN last. A few elements are looked at to guess how large the largest are; one
// pass then notes all that are about so large, and only these are looked at more closely. Where the guess was
// too high, another pass counts how many elements there are of each upper part of the bits: what is found
// does not depend on the guess.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/cpu/workspace.h"

namespace trireme::cpu {
namespace {

constexpr int kBins = 2048, kShift = 20;  // 31 bits are 11 and 20
constexpr int64_t kChunk = 32768;         // elements that one thread looks at, and notes, at a time
constexpr int64_t kBlock = 32;            // of a chunk, most of which have nothing to note
// A guess looks at so many elements, a line of memory at a time.
constexpr int64_t kLooked = 16384, kLine = 16;

uint32_t magnitude(float x) {
  return std::bit_cast<uint32_t>(x) & 0x7fffffffu;
}

struct TopKSpace {
  TopKSpace(std::byte* memory, int64_t elements, int slots) {
    Workspace space(memory);
    chunks = (elements + kChunk - 1) / kChunk;
    counts = space.take<uint32_t>(int64_t{kBins} * slots);
    noted = space.take<uint32_t>(elements);
    noted_count = space.take<int64_t>(chunks);
    bytes = space.bytes();
  }
  int64_t chunks;
  uint32_t* counts;  // per thread, of each bin
  uint32_t* noted;   // indices, first those of a chunk where it begins, then all; before, what is guessed by
  int64_t* noted_count;  // of each chunk
  size_t bytes;
};

// Which elements are the k largest: magnitudes above `least`, and of those equal to it the first `ties`; and
// as many of the others as are wanted still, from the beginning.
struct Selection {
  uint32_t least;
  int64_t ties, others = 0;
};

class TopK {
 public:
  explicit TopK(const KernelContext& context)
      : pool_(pool_of(context)),
        x_(context.in<float>(0)),
        n_(context.inputs[0].elements()),
        k_(context.outputs[0].elements()),
        sampled_(context.attrs.real("sampled", 0)),
        space_(context.workspace, n_, pool_.threads()) {}

  void run(float* values, int32_t* indices, float* rest) {
    if (k_ == 0) {
      if (rest != x_) copy_chunks(rest);
      return;
    }
    const Selection selection = select(rest);
    int64_t found = 0, ties = selection.ties, others = selection.others;
    const auto take = [&](int64_t index) {
      values[found] = x_[index];
      indices[found++] = static_cast<int32_t>(index);
    };
    const auto is_chosen = [&](uint32_t here) {
      return here > selection.least || (here == selection.least && ties-- > 0);
    };
    if (others > 0) {
      for (int64_t i = 0; i < n_ && found < k_; ++i) {
        if (is_chosen(magnitude(x_[i])) || others-- > 0) take(i);
      }
    } else {
      for_each_noted([&](int64_t index, uint32_t here) {
        if (is_chosen(here)) take(index);
      });
    }
    TRIREME_CHECK(found == k_);
    for (int64_t i = 0; i < k_; ++i) rest[indices[i]] = 0;
  }

 private:
  void copy_chunks(float* rest) {
    pool_.parallel_for(n_, kElementGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(rest + begin, x_ + begin, (end - begin) * sizeof(float));
    });
  }

  // With the magnitude of each. They lie all over memory: what was noted is looked up there once, where
  // there is room behind it for what was found.
  template <typename Body>
  void for_each_noted(const Body& body) const {
    const uint32_t* const sizes = has_sizes() ? space_.noted + noted_ : nullptr;
    for (int64_t i = 0; i < noted_; ++i) {
      const int64_t index = space_.noted[i];
      body(index, sizes ? sizes[i] : magnitude(x_[index]));
    }
  }
  bool has_sizes() const { return 2 * noted_ <= n_; }

  // Indices of all chunks one after another, from where each chunk has noted its own.
  void gather_noted() {
    noted_ = 0;
    for (int64_t chunk = 0; chunk < space_.chunks; ++chunk) {
      const uint32_t* const own = space_.noted + chunk * kChunk;
      std::copy(own, own + space_.noted_count[chunk], space_.noted + noted_);  // never forwards
      noted_ += space_.noted_count[chunk];
    }
    if (!has_sizes()) return;
    for (int64_t i = 0; i < noted_; ++i) space_.noted[noted_ + i] = magnitude(x_[space_.noted[i]]);
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

  Selection select(float* rest) {
    const uint32_t guess = sampled_ > 0 ? sampled_least() : likely_least();
    note(guess, rest);
    if (noted_ < k_) {
      if (sampled_ > 0) return {guess, n_, k_ - noted_};
      note(counted_least(), nullptr);
    }
    int64_t wanted = k_;
    uint32_t least = 0;
    for (const int shift : {kShift, 10, 0}) {
      std::fill_n(space_.counts, kBins, 0u);
      const int above = shift == kShift ? 31 : shift + 10;
      for_each_noted([&](int64_t, uint32_t here) {
        if ((here ^ least) >> above == 0) ++space_.counts[(here & ((1u << above) - 1)) >> shift];
      });
      least |= bin_of(space_.counts, wanted) << shift;
    }
    return {least, wanted};
  }

  // Of the first `count` of what a guess looks at, the `wanted`-th largest.
  uint32_t largest_looked_at(int64_t count, int64_t wanted) {
    uint32_t* const at = space_.noted + std::clamp<int64_t>(wanted, 1, count) - 1;
    std::nth_element(space_.noted, at, space_.noted + count, std::greater<>());
    return *at;
  }

  // By every so many-th element.
  uint32_t sampled_least() {
    const int64_t stride = std::max<int64_t>(1, std::llround(1 / sampled_));
    int64_t looked = 0;
    for (int64_t i = 0; i < n_; i += stride) space_.noted[looked++] = magnitude(x_[i]);
    return largest_looked_at(looked,
                             std::llround(static_cast<double>(k_ * looked) / static_cast<double>(n_)));
  }

  // Such that there are k as large, very likely, and not many more; everything where that is not worth a
  // look.
  uint32_t likely_least() {
    if (n_ < 4 * kLooked) return counted_least();
    const int64_t lines = kLooked / kLine, stride = n_ / lines;
    int64_t looked = 0;
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t i = 0; i < kLine; ++i) space_.noted[looked++] = magnitude(x_[line * stride + i]);
    }
    const double expected = static_cast<double>(k_) * static_cast<double>(looked) / static_cast<double>(n_);
    return largest_looked_at(looked, std::llround(1.1 * expected + 3 * std::sqrt(expected) + 2));
  }

  // The lower end of the bin that the k-th largest is in.
  uint32_t counted_least() {
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
    return bin_of(space_.counts, wanted) << kShift;
  }

  // Those of at least this magnitude; and copies all of them, so that memory is read once, unless `rest` is
  // where they are or null.
  void note(uint32_t least, float* rest) {
    pool_.parallel_for(space_.chunks, 1, [&](int64_t first, int64_t last) {
      for (int64_t chunk = first; chunk < last; ++chunk) {
        const int64_t begin = chunk * kChunk, end = std::min(n_, begin + kChunk);
        if (rest && rest != x_) std::memcpy(rest + begin, x_ + begin, (end - begin) * sizeof(float));
        space_.noted_count[chunk] = note_of(begin, end, least);
      }
    });
    gather_noted();
  }

  int64_t note_of(int64_t begin, int64_t end, uint32_t least) {
    uint32_t* const noted = space_.noted + begin;
    int64_t count = 0, i = begin;
    const auto note_from = [&](int64_t to) {
      for (; i < to; ++i) {
        noted[count] = static_cast<uint32_t>(i);  // stays where the next does not take its place
        count += magnitude(x_[i]) >= least;
      }
    };
    while (i + kBlock <= end) {
      const float* const block = x_ + i;
      int32_t most = 0;  // signed, and without branches, so that it is made of vectors
      for (int64_t j = 0; j < kBlock; ++j) most = std::max(most, static_cast<int32_t>(magnitude(block[j])));
      if (most >= static_cast<int32_t>(least))
        note_from(i + kBlock);
      else
        i += kBlock;
    }
    note_from(end);
    return count;
  }

  ThreadPool& pool_;
  const float* x_;
  int64_t n_, k_;
  double sampled_;
  TopKSpace space_;
  int64_t noted_ = 0;
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

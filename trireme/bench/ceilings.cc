// Two loops in Highway: one that only multiplies and adds in registers, one that only moves memory; and a
// product.
#include "trireme/bench/ceilings.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/machine.h"
#include "trireme/base/statistics.h"
#include "trireme/bench/device_ceilings.h"
#include "trireme/bench/kernel_run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/bench/ceilings.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace trireme::bench::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Sums that do not wait for one another: two units with a latency of five cycles need ten, four with one of
// four sixteen. With the two factors they fit the registers: 32 on AVX-512 and Arm, 16 on other x86.
#if (HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86) || !HWY_ARCH_X86
constexpr size_t kChains = 24;
#else
constexpr size_t kChains = 12;
#endif

using Tag = hn::ScalableTag<float>;
using Vector = hn::VFromD<Tag>;

// Each sum is added to in place, as in a product of matrices: Arm's instruction writes over the term, so that
// a chain of which each value is multiplied needs a move beside each. x86 before AVX2 has none that is fused,
// and the compiler would make the product of two constants once and only add; there the chain is multiplied.
HWY_INLINE Vector multiply_add(Vector sum, Vector x, Vector y) {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
  return hn::MulAdd(sum, x, y);
#else
  return hn::MulAdd(x, y, sum);
#endif
}

template <size_t... kChain>
HWY_INLINE float multiply_add_chains(int64_t rounds, float factor, std::index_sequence<kChain...>) {
  const Tag d;
  const Vector x = hn::Set(d, factor), y = hn::Set(d, factor);
  Vector sum[kChains];
  ((sum[kChain] = hn::Iota(d, static_cast<float>(kChain))), ...);
  for (int64_t round = 0; round < rounds; ++round) ((sum[kChain] = multiply_add(sum[kChain], x, y)), ...);
  Vector total = hn::Zero(d);
  ((total = hn::Add(total, sum[kChain])), ...);
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// Returns a sum of the results so that nothing can be left out. With a small `factor` no value becomes
// subnormal or infinite, which would change the speed.
HWY_NOINLINE float multiply_add_loop(int64_t rounds, float factor) {
  return multiply_add_chains(rounds, factor, std::make_index_sequence<kChains>());
}

double flops_per_round() {
  return 2.0 * kChains * static_cast<double>(hn::Lanes(Tag()));
}

// `count` is a multiple of the lanes of any target.
HWY_NOINLINE void triad(float* to, const float* x, const float* y, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.5f);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes)
    hn::Store(hn::MulAdd(factor, hn::Load(d, y + i), hn::Load(d, x + i)), d, to + i);
}

}  // namespace
}  // namespace trireme::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::bench {

HWY_EXPORT(multiply_add_loop);
HWY_EXPORT(flops_per_round);
HWY_EXPORT(triad);

namespace {

constexpr int kBursts = 5;                  // at least
constexpr double kBandwidthSeconds = 0.15;  // for each size
// A burst of some milliseconds: the clock of a thread errs by some 10 µs.
constexpr int64_t kRounds = 200'000;
constexpr int64_t kGrain = 4096;  // elements; a multiple of all lanes

double running_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// FLOPs a second of all threads, each of which does `work(thread)`, so many FLOPs, at a time. Each counts the
// time that it was running, not that in which others had its core: a ceiling that is measured in a bad moment
// would be gone through in a good one.
template <typename Work>
double arithmetic_rate(ThreadPool& pool, double seconds, double flops, const Work& work) {
  double spent = 0;
  std::vector<double> bursts, rates(pool.threads());
  while (std::ssize(bursts) < kBursts || spent < seconds) {
    spent += seconds_of([&] {
      pool.on_each([&](int thread) {
        const double begin = running_seconds();
        work(thread);
        rates[thread] = flops / (running_seconds() - begin);
      });
    });
    bursts.push_back(std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  // Not the very best: the clock errs to both sides.
  return quantile_of(std::move(bursts), 0.9);
}

}  // namespace

// Of a loop of nothing but multiply-adds, and of a product of matrices. A Neoverse V1 slows such a loop down
// to half of its rate (41.6 GFLOP/s), and a product, which also loads, to no less than three quarters of it.
double measure_flops_per_second(ThreadPool& pool, double seconds) {
  volatile float factor = 1e-3f;  // not known to the compiler
  const double loop =
      arithmetic_rate(pool, seconds, HWY_DYNAMIC_DISPATCH(flops_per_round)() * kRounds, [&](int) {
        [[maybe_unused]] volatile float sink = HWY_DYNAMIC_DISPATCH(multiply_add_loop)(kRounds, factor);
      });
  const CaseInput square{{512, 512}};
  std::vector<std::unique_ptr<ThreadPool>> alone;
  std::vector<std::unique_ptr<KernelRun>> products;
  for (int thread = 0; thread < pool.threads(); ++thread) {
    alone.push_back(std::make_unique<ThreadPool>(1));
    products.push_back(
        std::make_unique<KernelRun>("matmul", std::vector{square, square}, Attrs(), Results::kOwnMemory));
  }
  const double product = arithmetic_rate(pool, seconds, products[0]->cost().flops,
                                         [&](int thread) { products[thread]->run(*alone[thread]); });
  return std::max(loop, product);
}

double measure_bytes_per_second(ThreadPool& pool, size_t bytes) {
  const int64_t grains = std::max<int64_t>(pool.threads(), bytes / (3 * kGrain * sizeof(float)));
  const int64_t count = grains * kGrain;
  const auto allocate = [&] {
    auto* data = static_cast<float*>(std::aligned_alloc(4096, count * sizeof(float)));
    if (!data) throw std::bad_alloc();
    return std::unique_ptr<float, void (*)(void*)>(data, std::free);
  };
  const auto to = allocate(), x = allocate(), y = allocate();
  // Few large ranges: each thread walks forward, as kernels do.
  const int64_t grain = std::max<int64_t>(1, grains / (4 * pool.threads()));
  const auto each = [&](const auto& body) {
    pool.parallel_for(grains, grain,
                      [&](int64_t begin, int64_t end) { body(begin * kGrain, (end - begin) * kGrain); });
  };
  each([&](int64_t begin, int64_t elements) {
    for (float* array : {to.get(), x.get(), y.get()}) std::fill_n(array + begin, elements, 1.0f);
  });
  double best = 0, spent = 0;
  for (int burst = 0; burst < 5 || spent < kBandwidthSeconds; ++burst) {
    const double seconds = seconds_of([&] {
      each([&](int64_t begin, int64_t elements) {
        HWY_DYNAMIC_DISPATCH(triad)(to.get() + begin, x.get() + begin, y.get() + begin, elements);
      });
    });
    spent += seconds;
    best = std::max(best, 3.0 * sizeof(float) * static_cast<double>(count) / seconds);
  }
  return best;
}

Ceilings::Ceilings(ThreadPool& pool) : pool_(&pool), flops_per_second_(measure_flops()) {}
Ceilings::Ceilings(Device& device, DType dtype)
    : device_(&device), dtype_(dtype), flops_per_second_(measure_flops()) {}

double Ceilings::measure_flops() const {
  return pool_ ? measure_flops_per_second(*pool_) : measure_product_flops_per_second(*device_, dtype_);
}

double Ceilings::measure_bytes(size_t bytes) const {
  return pool_ ? measure_bytes_per_second(*pool_, bytes) : measure_copy_bytes_per_second(*device_);
}

void Ceilings::measure_again() {
  flops_per_second_ = std::max(flops_per_second_, measure_flops());
}

double Ceilings::bytes_per_second(double working_set_bytes) {
  constexpr double kSmallest = 64 << 10;
  const size_t bytes = pool_ ? std::bit_ceil(static_cast<size_t>(std::max(working_set_bytes, kSmallest)))
                             : 0;  // of a device: always its memory
  auto [entry, fresh] = bandwidths_.try_emplace(bytes, 0);
  if (fresh) entry->second = measure_bytes(bytes);
  return entry->second;
}

double Ceilings::memory_bytes_per_second() {
  const size_t wanted = std::max<size_t>(size_t{256} << 20, 2 * last_level_cache_bytes());
  return bytes_per_second(static_cast<double>(std::min(wanted, available_memory_bytes() / 4)));
}

double Ceilings::seconds(const Cost& cost) {
  return std::max(cost.flops / flops_per_second_, cost.bytes / bytes_per_second(cost.bytes));
}

}  // namespace trireme::bench
#endif  // HWY_ONCE

// drawn: each number in turn is taken with the probability that as many are still wanted of those left, so
// that exactly `count` are, every set of them equally likely, and nothing need be kept.
#include "trireme/base/rng.h"
#include "trireme/kernels/cpu/context.h"

namespace trireme::cpu {
namespace {

void drawn(const KernelContext& context) {
  const int64_t of = context.attrs.integer("of"), which = context.attrs.integer("which");
  const RngKey key{static_cast<uint64_t>(context.attrs.integer("seed")),
                   static_cast<uint64_t>(context.attrs.integer("stream")) +
                       static_cast<uint64_t>(*context.in<float>(0)) * 0x9E3779B97F4A7C15u};
  int64_t wanted = context.attrs.integer("count");
  bool taken = false;
  for (int64_t i = 0; i <= which; ++i) {
    const auto left = static_cast<uint64_t>(of - i);
    taken = uniform_integer(key, static_cast<uint64_t>(i), left) < static_cast<uint64_t>(wanted);
    wanted -= taken ? 1 : 0;
  }
  *context.out<float>(0) = taken ? 1.0f : 0.0f;
}

}  // namespace

void add_drawn(KernelTable& table) {
  table.add("drawn", DType::f32, {drawn});
}

}  // namespace trireme::cpu

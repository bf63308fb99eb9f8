// Links between ranks; see local_cluster.h. The time of an all_reduce by a ring is T(n) = 2 (P − 1) α + 2 (P
// − 1)/P n β.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/statistics.h"
#include "trireme/bench/collective_timing.h"
#include "trireme/bench/device_ceilings.h"
#include "trireme/bench/local_cluster.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/runtime/executor.h"

namespace trireme::bench {
namespace {

constexpr int kRounds = 5;

// Products of some tenths of a millisecond, as large as ops of small models.
class Work {
 public:
  explicit Work(Device& device)
      : executor_(build_program({product()}, workspace_query(device)), device),
        product_seconds_(measure_product_seconds(device, DType::f32, kSide, kSide, kSide)) {
    const std::vector<float> ones(kSide * kSide, 1.0f);
    for (const char* name : {"a", "b"})
      executor_.set_input(0, name, ones.data(), ones.size() * sizeof(float));
  }

  // As many as take so long, the same number on all ranks.
  int64_t products_in(double seconds, comm::Group& world) const {
    int64_t products = static_cast<int64_t>(std::ceil(seconds / product_seconds_)) + 1;
    world.all_reduce(&products, 1, DType::i64, comm::ReduceOp::max).wait();
    return products;
  }

  // What so many take, with `behind` called behind each.
  template <typename Behind>
  double seconds(int64_t products, const Behind& behind) {
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < products; ++i) {
      executor_.run(0);
      behind();
    }
    return seconds_since(begin);
  }

 private:
  static constexpr int64_t kSide = 256;
  static Graph product() {
    Builder b(ops(), "product");
    b.output("y", b.op("matmul", {b.input("a", {DType::f32, {kSide, kSide}}),
                                  b.input("b", {DType::f32, {kSide, kSide}})}));
    return b.take();
  }

  Executor executor_;
  double product_seconds_;
};

// What a short all_reduce adds to work behind which all ranks meet.
double meeting_seconds(Work& work, comm::Group& world) {
  const int64_t products = work.products_in(0.05, world);
  std::vector<double> added;
  for (int round = 0; round < kRounds; ++round) {
    world.barrier().wait();
    const double alone = work.seconds(products, [] {});
    world.barrier().wait();
    float sum = 0;
    const double meeting =
        work.seconds(products, [&] { world.all_reduce(&sum, 1, DType::f32, comm::ReduceOp::sum).wait(); });
    added.push_back((meeting - alone) / static_cast<double>(products));
  }
  return median_of(added);
}

// What work loses to an all_reduce beside it that is moved between products, as the executor does: a share of
// the `seconds` that this takes alone.
double slowdown(Work& work, comm::Context& context, comm::Group& world, size_t bytes, double seconds) {
  const std::unique_ptr<comm::Memory> memory = context.transport().allocate(bytes);
  const int64_t products = work.products_in(2 * seconds, world),
                count = static_cast<int64_t>(bytes / sizeof(float));
  std::vector<double> lost;
  for (int round = 0; round < kRounds; ++round) {
    world.barrier().wait();
    const double alone = work.seconds(products, [] {});
    world.barrier().wait();
    comm::Handle handle = world.all_reduce(memory->bytes().data(), count, DType::f32, comm::ReduceOp::sum);
    const double beside = work.seconds(products, [&] { handle.done(); });
    handle.wait();
    lost.push_back((beside - alone) / seconds);
  }
  return std::clamp(median_of(lost), 0.0, 1.0);
}

}  // namespace

LinkClass measure_link(comm::Context& context, Device& device) {
  comm::Group world = context.world();
  CollectiveQuestion question;
  question.algorithms = {comm::Algorithm::automatic};
  question.sizes = {64, size_t{1} << 20, size_t{16} << 20};
  const std::vector<CollectiveTime> times =
      time_collective(context, world, question, [](const CollectiveTime&) {});
  const double ranks = context.ranks(), rounds = 2 * (ranks - 1);
  const double longer = times[2].median_seconds - times[1].median_seconds;
  const double bytes = static_cast<double>(times[2].bytes - times[1].bytes);
  LinkClass link{.name = std::string(kLocalLink),
                 .alpha_seconds = times[0].median_seconds / rounds,
                 .bytes_per_second = rounds / ranks * bytes / longer};
  if (device.name() != "cpu") return link;
  Work work(device);
  link.alpha_seconds = std::max(link.alpha_seconds, meeting_seconds(work, world) / rounds);
  link.slowdown = slowdown(work, context, world, times[2].bytes, times[2].median_seconds);
  return link;
}

}  // namespace trireme::bench

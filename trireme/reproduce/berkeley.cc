// B: Berkeley AI-Systems (294-162), "Distributed Deep Learning (Part I)".
#include <fmt/format.h>

#include "trireme/mesh/cluster_file.h"
#include "trireme/optim/lr_schedule.h"
#include "trireme/reproduce/collectives.h"
#include "trireme/reproduce/entry.h"
#include "trireme/reproduce/step.h"
#include "trireme/run/learning.h"

namespace trireme::reproduce {
namespace {

using comm::Algorithm;
using comm::Collective;

// The ranks of the slides on servers and rings, and of their plots of latency.
constexpr int kFew = 4, kPlotted = 256, kSummit = 24576;

std::vector<double> one_server() {
  const Sent sent = sent_by(Algorithm::parameter_server, kFew);
  return {sent.in_all, sent.by_busiest, sent.fan_in};
}

std::vector<double> sharded_servers() {
  const Sent sent = sent_by(Algorithm::sharded_parameter_server, kFew);
  return {sent.by_busiest / 2, sent.by_busiest, sent.in_all, sent.fan_in};
}

std::vector<double> ring() {
  const Sent sent = sent_by(Algorithm::ring, kFew);
  return {sent.rounds, sent.by_busiest, sent.in_all, sent.fan_in};
}

double rounds_of_form(Algorithm algorithm, int ranks) {
  return comm::formula(Collective::all_reduce, algorithm, ranks).rounds;
}

// Of 8 bytes over messages of 10 µs, as NCCL's plot has them.
double small_seconds(Algorithm algorithm, int ranks) {
  const comm::Link link{.alpha_seconds = 10e-6, .beta_seconds_per_byte = 8 / 100e9};
  return comm::formula_seconds(comm::formula(Collective::all_reduce, algorithm, ranks), 8, link);
}

std::vector<double> double_tree() {
  return {
      rounds_of_form(Algorithm::ring, kPlotted),      rounds_of_form(Algorithm::double_tree, kPlotted),
      1e3 * small_seconds(Algorithm::ring, kPlotted), 1e3 * small_seconds(Algorithm::double_tree, kPlotted),
      rounds_of_form(Algorithm::ring, kSummit),       rounds_of_form(Algorithm::double_tree, kSummit)};
}

std::vector<double> times() {
  return {example_seconds(Algorithm::parameter_server, kFew), example_seconds(Algorithm::ring, kFew)};
}

// A ring for each tensor of AlexNet, or one for all.
std::vector<double> by_tensor() {
  const std::vector<Value> parameters =
      parameters_of(read_step({"model.family=alexnet", "model.classes=1000", "train.batch=4"}));
  const comm::Formula form = comm::formula(Collective::all_reduce, Algorithm::ring, kFew);
  double messages = 0, carried = 0, bytes = 0;
  for (const Value& parameter : parameters) {
    const auto size = static_cast<double>(parameter.type.bytes());
    messages += form.messages;
    carried += form.carried * size;
    bytes += size;
  }
  return {static_cast<double>(parameters.size()), messages, 1.0 * form.messages, carried / bytes,
          form.carried};
}

std::vector<double> rows_a_device() {
  const Program program = program_of(
      read_step({"model.family=mlp", "model.classes=10", "train.batch=1024"}, R"({"mesh": "data:16"})"));
  for (const Segment& segment : program.segments) {
    for (const Value& value : segment.graph.values) {
      if (value.role == Role::kBatch) return {static_cast<double>(value.type.shape[0])};
    }
  }
  return {kNoNumber};
}

// A run whose loss falls by 2 over 1000 records in 5 s, and one that has half the records a second and learns
// twice as much from each.
std::vector<double> learning_products() {
  const auto run = [](double records, double seconds) {
    const std::vector<LearningStep> steps = {{0, 3, 0, 0}, {1, 1, seconds, records}};
    return learning_of(steps);
  };
  const Learning fast = run(1000, 5), slow = run(500, 5);
  return {fast.per_record() * fast.records_per_second() / (fast.learned() / fast.seconds),
          slow.per_second() / fast.per_second()};
}

std::vector<double> linear_rule() {
  const OptimOptions found{.lr = 0.1, .batch_rule = "linear", .base_batch = 256};
  const LrScheduleOptions schedule{.kind = "constant", .warmup_steps = 100, .warmup_from = "base"};
  const auto rate = [&](int64_t step) { return learning_rate(found, schedule, 8192, 1000, step); };
  return {scaled_rate(found, 8192), rate(0), rate(50), rate(100)};
}

// Hosts of eight P100 with 50 Gbit/s each, by their makers' figures; all else as of `v100`.
Cluster p100(int hosts) {
  Cluster cluster = read_cluster("v100");
  DeviceClass& device = cluster.devices[0];
  device.flops_per_second = {{DType::f32, 10.6e12}};
  device.bandwidth = {{0, 0.732e12}};
  for (LinkClass& link : cluster.links) {
    if (link.name == cluster.hosts[0].across) link.bytes_per_second = 50e9 / 8;
  }
  return with_hosts(std::move(cluster), hosts);
}

// 32 images a GPU; efficiency against one host.
std::vector<double> imagenet_in_an_hour() {
  const auto images_a_second = [](int hosts) {
    const int gpus = 8 * hosts, batch = 32 * gpus;
    const Step step = read_step({"model.family=resnet", "model.layers=50", "model.classes=1000",
                                 fmt::format("train.batch={}", batch)},
                                fmt::format(R"({{"mesh": "data:{}", "batch_norm": "local"}})", gpus));
    return batch / simulated(step, p100(hosts), sim::Overlap::kAsPlanned).step_seconds / gpus;
  };
  const double many = images_a_second(32);
  return {100 * many / images_a_second(1), many};
}

}  // namespace

Deck berkeley() {
  return {
      'B',
      "Berkeley AI-Systems 294-162, \"Distributed Deep Learning (Part I)\"",
      {
          {.id = "B1",
           .statement = "a server with one master and P = 4: vectors sent",
           .command = "trireme inspect collectives -n 4",
           .figures = {{"in all", 6}, {"by the master", 3}, {"fan-in of the master", 3}},
           .ours = one_server,
           .note = "A slide typesets (P−1)·N² where (P−1)·N·2 is meant."},
          {.id = "B2",
           .priority = 2,
           .statement = "a server that is shared out, key i to machine i, P = 4: vectors sent",
           .command = "trireme inspect collectives -n 4",
           .figures =
               {{"by a machine in a phase", 0.75}, {"by a machine", 1.5}, {"in all", 6}, {"fan-in", 3}},
           .ours = sharded_servers},
          {.id = "B3",
           .statement = "a ring with P = 4: vectors sent",
           .command = "trireme inspect collectives -n 4",
           .figures = {{.name = "rounds", .deck = 3, .corrected = 6},
                       {"by a machine", 1.5},
                       {"in all", 6},
                       {"fan-in", 1}},
           .ours = ring,
           .note = "P−1 rounds are one of two phases. That the bytes of a machine do not depend on P is true "
                   "only nearly: 1 vector for P = 2, 2 in the limit."},
          {.id = "B4",
           .statement = "double binary trees have log P rounds: 8 bytes over messages of 10 µs",
           .command = "trireme inspect collectives -n 256 --bytes 8 --link latency=10us,bandwidth=100Gbit",
           .figures = {{"rounds of the ring, 256", 510},
                       {"of the trees, 256", 16},
                       {.name = "latency of the ring, 256", .deck = 5.1, .unit = "ms"},
                       {.name = "of the trees, 256", .deck = 0.16, .unit = "ms"},
                       {"rounds of the ring, 24576", 49150},
                       {"of the trees, 24576", 30}},
           .ours = double_tree,
           .note = "The deck has a plot of NCCL's latencies. Numbers are its formulas, 2(P−1) and 2⌈log₂P⌉."},
          {.id = "B5",
           .statement = "time of an all-reduce, P = 4, 64 MiB over 0.5 ms and 1 Gbit/s",
           .command = "trireme inspect collectives -n 4 --link office",
           .figures = {{.name = "server, α + PNβ", .deck = 2.148, .corrected = 3.222, .unit = "s"},
                       {.name = "ring, 2((P−1)α + (P−1)/P·Nβ)", .deck = 0.808, .unit = "s"}},
           .ours = times,
           .note = "The server's time is that of one way, with P for P−1. Both ways are 2(α + (P−1)Nβ). "
                   "Ours are the columns without segments."},
          {.id = "B6",
           .statement =
               "rings tensor by tensor, 2Σ(α(P−1) + β(P−1)/P·|Wᵢ|), or for all at once: AlexNet, P = 4",
           .command = "trireme reproduce B6",
           .figures = {{"tensors", 16},
                       {.name = "messages after one another, by tensor", .deck = 96, .unit = "α"},
                       {.name = "in one bucket", .deck = 6, .unit = "α"},
                       {"vectors sent by a machine, by tensor", 1.5},
                       {"in one bucket", 1.5}},
           .ours = by_tensor},
          {.id = "B7",
           .priority = 2,
           .statement = "a batch of 1024 on 16 devices; the sum of parts of the gradient is the gradient",
           .command = "trireme verify --plan data -n 4",
           .figures = {{"rows of a device", 64}},
           .ours = rows_a_device},
          {.id = "B8",
           .priority = 2,
           .statement = "no more processors than samples",
           .command =
               "trireme simulate --preset gpt --plan data -n 16 --train.batch=8 --cluster a100 --hosts 2",
           .note = "The command refuses the plan and says so."},
          {.id = "B9",
           .kind = Kind::kSimulated,
           .statement =
               "time of an epoch of AlexNet against the batch: no speed-up towards one sample a device",
           .command = "trireme inspect graph --model.family=alexnet --parallelism --cluster a100 "
                      "--train.batch=64",
           .note = "The deck has a plot, of a KNL. Repeat the command with other batches."},
          {.id = "B10",
           .statement = "learning per second = learning per record × records per second",
           .command = "trireme inspect run RUN OTHER --learning --held-out --target 2.5",
           .figures = {{"product of both factors over learning per second", 1},
                       {"twice as much a record, half the records a second", 1}},
           .ours = learning_products},
          {.id = "B11",
           .statement = "k times the batch, k times the rate (0.1 for 256 samples); warm-up",
           .command = "trireme train --optim.batch_rule=linear --optim.base_batch=256 --train.batch=8192 "
                      "--lr_schedule.warmup_from=base",
           .figures = {{"rate for 8192 samples", 3.2},
                       {"in the first step of warm-up", 0.1},
                       {"half way, η(1 + (k−1)s/W)", 1.65},
                       {"behind it", 3.2}},
           .ours = linear_rule,
           .note =
               "Without lr_schedule.warmup_from=base warm-up begins at 0. docs/large_batches.md has runs."},
          {.id = "B12",
           .kind = Kind::kSimulated,
           .statement = "ResNet-50 on 256 GPUs in an hour, 90 % efficiency from 8 GPUs",
           .command = "trireme simulate --model.family=resnet --model.layers=50 --model.classes=1000 "
                      "--train.batch=8192 --plan '{\"mesh\": \"data:256\", \"batch_norm\": \"local\"}' "
                      "--cluster v100 --hosts 32",
           .figures = {{.name = "efficiency", .deck = 90, .unit = "%", .bound = 0.1}, {"images/s of a GPU"}},
           .ours = imagenet_in_an_hour,
           .note =
               "Simulated with P100 and 50 Gbit/s a host, as that system had; the command has V100. An hour "
               "for 90 epochs is 125 images/s of a GPU: ours is too fast."},
          {.id = "B13",
           .priority = 2,
           .kind = Kind::kMeasured,
           .statement = "the gradient of a batch has 1/B of the variance",
           .command = "trireme train --train.noise_scale=true --train.accumulate=4"},
          {.id = "B14",
           .priority = 2,
           .kind = Kind::kMeasured,
           .statement = "large batches find sharper minima; LARS and LAMB help",
           .command = "trireme bench batches --runs DIR --batches 32,128,512 --optimizers sgd=0.1,lars=5",
           .note = "docs/large_batches.md has such a table, with the largest eigenvalue of the Hessian; "
                   "`trireme inspect curvature RUN OTHER` has the loss between two solutions."},
          {.id = "B15",
           .priority = 2,
           .kind = Kind::kMeasured,
           .statement = "asynchronous training makes more steps and a worse result",
           .command = "python3 scripts/exchange_tables --only cells"},
      },
  };
}

}  // namespace trireme::reproduce

// L: LauzHack bootcamp, "Large Scale & Distributed Optimization", Atli Kosson.
#include <fmt/format.h>

#include <cmath>

#include "trireme/mesh/cluster_file.h"
#include "trireme/optim/lr_schedule.h"
#include "trireme/reproduce/entry.h"
#include "trireme/reproduce/loops.h"
#include "trireme/reproduce/pipelines.h"
#include "trireme/reproduce/step.h"
#include "trireme/train/critical_batch.h"

namespace trireme::reproduce {
namespace {

const Settings kHalfStates = {"train.precision=bf16", "train.weight_precision=bf16",
                              "train.gradient_precision=bf16"};

Settings joined(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}
Settings gpt(int64_t heads, int64_t hidden, int64_t layers, int64_t vocab = 51200) {
  return {fmt::format("model.heads={}", heads), fmt::format("model.hidden={}", hidden),
          fmt::format("model.layers={}", layers), fmt::format("model.vocab={}", vocab), "model.seq=2048"};
}
Settings gpt3() {
  return gpt(96, 12288, 96, 50257);
}

std::vector<double> a100() {
  const DeviceClass device = read_cluster("a100").devices[0];
  const double flops = device.peak(DType::bf16), rate = device.bytes_per_second(1e9);
  return {flops / 1e12,
          device.tf32_flops_per_second / 1e12,
          device.peak(DType::f32) / 1e12,
          device.memory_bytes / 1e9,
          rate / 1e9,
          device.watts,
          flops / rate};
}

// Where adding 1 no longer changes anything.
template <typename T>
double ones_stop_at() {
  float sum = 0;
  while (static_cast<float>(T(sum + 1)) != sum) sum = static_cast<float>(T(sum + 1));
  return sum;
}

std::vector<double> formats() {
  return {ones_stop_at<F16>(), ones_stop_at<Bf16>(), ones_stop_at<float>(),
          static_cast<double>(static_cast<float>(F16(0x1p-25f)))};
}

std::vector<double> root_rule() {
  const OptimOptions found{.lr = 1e-3, .batch_rule = "sqrt", .decay_rule = "sqrt", .base_batch = 256};
  return {scaled_rate(found, 1024) / found.lr,
          with_scaled_decay(found, 1024).weight_decay / found.weight_decay};
}

// Whole groups of 8 microbatches, and a last one of 3.
std::vector<double> accumulated() {
  return {accumulated_over_whole(8), accumulated_over_whole(3)};
}

// 1000 samples in batches of 32 on each of 16 ranks; rank 0 prints every tenth batch.
std::vector<double> data_parallel_loop() {
  const double batches = batches_of_epoch(1000, 16 * 32);
  return {batches, std::ceil(batches / 10)};
}

// The curve through what four batches would take with S_min 40 and B_c 900.
std::vector<double> critical_batch() {
  std::vector<BatchSteps> points;
  for (const double batch : {64, 256, 1024, 4096}) points.push_back({batch, 40 * (1 + 900 / batch)});
  const CriticalBatchFit fit = fit_critical_batch(points).value();
  const double critical = fit.critical_batch;
  return {critical, fit.steps(critical) / fit.least_steps,
          critical * fit.steps(critical) / fit.least_samples()};
}

std::vector<double> years_of_gpt3() {
  constexpr double kYears = 288, kTokens = 300e9, kSeq = 2048, kHours = 365 * 24;
  const double flops = model_flops_of(read_step(joined(gpt3(), {"train.batch=1"}))) / kSeq * kTokens;
  const double rate = flops / (kYears * kHours * 3600);
  return {kYears * kHours / 1e6, flops / 1e23, rate / 1e12,
          100 * rate / read_cluster("v100").devices[0].peak(DType::f16)};
}

std::vector<double> bytes_a_parameter() {
  const auto bytes = [](const Settings& more) {
    const Program program = program_of(read_step(
        joined(joined(gpt3(), {"train.batch=2", "train.accumulate=2", "train.precision=bf16"}), more)));
    return std::pair(model_state_bytes(program), static_cast<double>(program.parameters));
  };
  const auto [wide, parameters] = bytes({"train.weight_precision=bf16"});
  const auto [narrow, same] = bytes(kHalfStates);
  return {wide / parameters, narrow / same, std::ceil(wide / 32e9)};
}

std::vector<double> dgx() {
  const Cluster cluster = read_cluster("a100");
  return {1.0 * cluster.hosts[0].devices, 1.0 * cluster.hosts[0].cards};
}

// A GPT of 7.5 billion parameters on 64 ranks.
Step of_zero(const std::string& preset, const Settings& more) {
  return read_step(joined(joined(gpt(32, 4096, 36), kHalfStates), more),
                   fmt::format(R"({{"mesh": "data:64", "preset": "{}"}})", preset));
}

std::vector<double> zero() {
  std::vector<double> result;
  for (const char* preset : {"data", "zero1", "zero2", "zero3"}) {
    const Program program = program_of(of_zero(preset, {"train.batch=128", "train.accumulate=2"}));
    result.push_back(7.5 * model_state_bytes(program) / static_cast<double>(program.parameters));
  }
  const auto sent = [](const char* preset) {
    return bytes_sent_in_step(program_of(of_zero(preset, {"train.batch=64"})));
  };
  result.push_back(sent("zero3") / sent("data"));
  return result;
}

std::vector<double> bubbles() {
  std::vector<double> result;
  for (const int chunks : {2, 4})
    result.push_back(100 *
                     timeline_of("interleaved", {.stages = 8, .microbatches = 32, .chunks_per_stage = chunks})
                         .bubble_of_work());
  return result;
}

// PTD-P's systems kept the scores of attention in memory and did not overlap collectives with work.
Cluster of_2021() {
  Cluster cluster = read_cluster("a100");
  for (auto& [op, share] : cluster.devices[0].ops) {
    if (op.starts_with("attention")) share = OpShare(0.1);
  }
  return cluster;
}

struct PtdRow {
  int64_t heads, hidden, layers, tensor, pipe, data, batch, microbatch, chunks;
};

// TFLOP/s a GPU by the paper's count, of a step with everything made again: 96·B·s·l·h²(1 + s/6h + V/16lh).
double ptd_rate(const PtdRow& row) {
  constexpr double kSeq = 2048, kVocab = 51200;
  std::string mesh;
  for (const auto& [axis, extent] :
       {std::pair("pipe", row.pipe), {"data", row.data}, {"tensor", row.tensor}}) {
    if (extent > 1) mesh += fmt::format("{}{}:{}", mesh.empty() ? "" : " ", axis, extent);
  }
  std::string plan = fmt::format(
      R"({{"mesh": "{}", "preset": "{}", "recompute": "full", "precision": "bf16", "accumulate": {})", mesh,
      row.tensor > 1 ? "megatron" : "data", row.batch / row.data / row.microbatch);
  if (row.pipe > 1)
    plan += fmt::format(R"(, "schedule": "{}", "chunks": {}{})", row.chunks == 1 ? "1f1b" : "interleaved",
                        row.chunks, row.tensor > 1 ? R"(, "boundaries": "parts")" : "");
  const Step step =
      read_step(joined(joined(gpt(row.heads, row.hidden, row.layers), kHalfStates),
                       {fmt::format("train.batch={}", row.batch), "train.clip_norm=1", "model.dropout=0.1"}),
                plan + "}");
  const int64_t gpus = row.tensor * row.pipe * row.data;
  const double seconds =
      simulated(step, with_hosts(of_2021(), static_cast<int>(gpus / 8)), sim::Overlap::kNone).step_seconds;
  const auto l = static_cast<double>(row.layers), h = static_cast<double>(row.hidden);
  const double flops =
      96 * static_cast<double>(row.batch) * kSeq * l * h * h * (1 + kSeq / (6 * h) + kVocab / (16 * l * h));
  return flops / seconds / static_cast<double>(gpus) / 1e12;
}

// Microbatches and chunks are not printed; these are the fastest that fit (bench/compare_published.py
// --scan).
std::vector<double> weak_scaling() {
  std::vector<double> result;
  for (const PtdRow& row :
       {PtdRow{24, 2304, 24, 1, 1, 32, 512, 8, 1}, PtdRow{32, 3072, 30, 2, 1, 32, 512, 8, 1},
        PtdRow{32, 4096, 36, 4, 1, 32, 512, 8, 1}, PtdRow{48, 6144, 40, 8, 1, 32, 1024, 4, 1},
        PtdRow{64, 8192, 48, 8, 2, 32, 1536, 4, 3}, PtdRow{80, 10240, 60, 8, 4, 32, 1792, 2, 3},
        PtdRow{96, 12288, 80, 8, 8, 24, 2304, 1, 2}})
    result.push_back(ptd_rate(row));
  return result;
}

// 162.2B parameters on 64 GPUs: stages times ranks along `tensor`. The rate where tensor is a host, then of
// the others relative to it.
std::vector<double> pipe_times_tensor() {
  const auto rate = [](int64_t pipe) { return ptd_rate({128, 20480, 32, 64 / pipe, pipe, 1, 128, 1, 1}); };
  const double best = rate(8);
  std::vector<double> result = {best};
  for (const int64_t pipe : {2, 4, 16, 32}) result.push_back(rate(pipe) / best);
  return result;
}

}  // namespace

Deck lauzhack() {
  return {
      'L',
      "LauzHack bootcamp, \"Large Scale & Distributed Optimization\", Atli Kosson",
      {
          {.id = "L1",
           .priority = 2,
           .statement = "an A100",
           .command = "trireme profile --show a100",
           .figures = {{.name = "fp16 and bf16", .deck = 312, .unit = "TFLOP/s"},
                       {.name = "TF32", .deck = 156, .unit = "TFLOP/s"},
                       {.name = "fp32", .deck = 19.5, .unit = "TFLOP/s"},
                       {.name = "memory", .deck = 80, .unit = "GB"},
                       {.name = "its rate", .deck = 2039, .unit = "GB/s", .bound = 0.15},
                       {.name = "power", .deck = 400, .unit = "W"},
                       {.name = "ridge", .deck = 153, .unit = "FLOP/byte", .bound = 0.17}},
           .ours = a100,
           .note = "Our rate is what programs reach, not the maker's."},
          {.id = "L2",
           .priority = 2,
           .statement = "few digits: 1000 ones are 100, and 0.01/100 is 0. Where our formats stop",
           .command = "trireme reproduce L2",
           .figures = {{"adding ones, f16"}, {"adding ones, bf16"}, {"adding ones, f32"}, {"2⁻²⁵ in f16"}},
           .ours = formats,
           .note = "The deck's format has two digits and exponents from −2 to 2."},
          {.id = "L3",
           .statement = "the loop of mixed precision: f16 with a loss scale, bf16 without",
           .command = "examples/cpp/loop_mixed_precision.cc"},
          {.id = "L4",
           .statement = "8 microbatches, losses divided by 8, are one large batch",
           .command = "examples/cpp/loop_accumulate.cc",
           .figures = {{"norm of the gradient over that of the large batch", 1},
                       {"of a last group of 3", 0.375, 1}},
           .ours = accumulated,
           .note =
               "The loop divides each loss by 8, so that a last group of r < 8 microbatches counts r/8. Ours "
               "divides by what was counted."},
          {.id = "L5",
           .statement = "the loop of data parallelism, rank 0 prints",
           .command = "examples/cpp/loop_data_parallel.cc",
           .figures = {{"batches of an epoch, 1000 samples, 32 a rank, 16 ranks", 2},
                       {"lines that rank 0 prints in it, every tenth batch", 1}},
           .ours = data_parallel_loop,
           .note =
               "The deck's sampler gives each rank 63 samples, of which 8 are there twice. Ours fills the "
               "last batch up with samples of the next epoch."},
          {.id = "L7",
           .priority = 2,
           .statement = "AdamW with bias correction and decoupled decay",
           .command = "build/release/trireme/optim/optim_test --gtest_filter='*Adam*'",
           .note = "ε is typeset inside the root. Ours is outside, as PyTorch's."},
          {.id = "L8",
           .priority = 2,
           .statement = "the rate and the weight decay grow with √B",
           .command = "trireme train --optim.batch_rule=sqrt --optim.decay_rule=sqrt --optim.base_batch=256 "
                      "--train.batch=1024",
           .figures = {{"rate for 4 times the batch", 2}, {"weight decay", 2}},
           .ours = root_rule},
          {.id = "L9",
           .statement = "critical batch: S = S_min(1 + B_c/B), E = E_min(1 + B/B_c)",
           .command = "trireme bench batches --runs DIR --batches 16,64,256,1024",
           .figures = {{"B_c fitted to steps with B_c 900", 900},
                       {"steps at B_c over S_min", 2},
                       {"samples at B_c over E_min", 2}},
           .ours = critical_batch,
           .note = "docs/large_batches.md has measured curves beside the noise scale."},
          {.id = "L10",
           .priority = 2,
           .statement = "GPT-3 on 300 billion tokens took 288 V100-years",
           .command = "trireme reproduce L10",
           .figures = {{.name = "hours", .deck = 2.52, .unit = "M"},
                       {.name = "FLOPs", .deck = 3.14, .unit = "e23", .bound = 0.04},
                       {.name = "rate of a V100", .deck = 34.6, .unit = "TFLOP/s", .bound = 0.04},
                       {.name = "of its peak", .deck = 28, .unit = "%", .bound = 0.04}},
           .ours = years_of_gpt3,
           .note = "The deck counts 6 FLOPs a parameter and token. Ours has attention too."},
          {.id = "L11",
           .statement = "20 bytes a parameter, so GPT-3 needs more than 100 V100",
           .command = "trireme plan --fit -n 1 --model.layers=96 --model.heads=96 --model.hidden=12288 "
                      "--model.vocab=50257 --model.seq=2048 --train.precision=bf16 "
                      "--train.weight_precision=bf16 --train.accumulate=2",
           .figures = {{.name = "f32 gradients", .deck = 20, .unit = "bytes", .bound = 0.101},
                       {.name = "16-bit gradients", .unit = "bytes"},
                       {.name = "V100 of 32 GB", .deck = 110, .bound = 0.101}},
           .ours = bytes_a_parameter,
           .note =
               "The deck keeps gradients in 16 bits beside those in f32. Ours keeps one of them: 18 or 16 "
               "bytes."},
          {.id = "L12",
           .priority = 2,
           .statement = "a DGX",
           .command = "trireme profile --show a100",
           .figures = {{"A100", 8}, {"network cards of 200 Gbit/s", 8}},
           .ours = dgx},
          {.id = "L13",
           .statement = "ZeRO, 7.5 billion parameters on 64 ranks: memory, and bytes sent",
           .command = "trireme plan --fit -n 64 --model.layers=36 --model.heads=32 --model.hidden=4096 "
                      "--model.vocab=51200 --model.seq=2048 --train.batch=128 --train.precision=bf16 "
                      "--train.weight_precision=bf16 --train.gradient_precision=bf16",
           .figures = {{.name = "plain", .deck = 120, .unit = "GB"},
                       {.name = "stage 1", .deck = 31.4, .unit = "GB"},
                       {.name = "stage 2", .deck = 16.6, .unit = "GB"},
                       {.name = "stage 3", .deck = 1.9, .unit = "GB", .bound = 0.015},
                       {.name = "stage 3 sends, of plain", .deck = 1.5}},
           .ours = zero,
           .note =
               "Of a GPT of 36 layers with 16-bit weights and gradients, scaled to 7.5 billion parameters."},
          {.id = "L16",
           .statement = "the bubble is (p−1)/(v·m) of the ideal step: 8 stages, 32 microbatches",
           .command = "trireme inspect schedule interleaved --stages 8 --microbatches 32 --chunks 2",
           .figures = {{.name = "v = 2", .deck = 10.94, .unit = "%"},
                       {.name = "v = 4", .deck = 5.469, .unit = "%"}},
           .ours = bubbles},
          {.id = "L17",
           .kind = Kind::kSimulated,
           .statement = "PTD-P, table 1: TFLOP/s a GPU by the paper's count of FLOPs",
           .command = "python3 bench/compare_published.py build/release/trireme/cli/trireme --tables table1",
           .figures = {{.name = "1.7B, 32 GPUs", .deck = 137, .bound = 0.15},
                       {.name = "3.6B, 64", .deck = 138, .bound = 0.15},
                       {.name = "7.5B, 128", .deck = 142, .bound = 0.15},
                       {.name = "18.4B, 256", .deck = 135, .bound = 0.15},
                       {.name = "39.1B, 512", .deck = 138, .bound = 0.15},
                       {.name = "76.1B, 1024", .deck = 140, .bound = 0.18},
                       {.name = "145.6B, 1536", .deck = 148, .bound = 0.15}},
           .ours = weak_scaling,
           .note = "On the cluster `a100` with attention that keeps scores, as in 2021, and without overlap. "
                   "The paper prints neither microbatches nor chunks. 310.1B and more take minutes each: see "
                   "the command."},
          {.id = "L19",
           .kind = Kind::kSimulated,
           .statement = "PTD-P, figure 13: 162.2B on 64 A100, TFLOP/s a GPU; best where tensor is a host",
           .command = "trireme reproduce L19",
           .figures = {{.name = "pipe 8, tensor 8", .deck = 165, .bound = 0.2},
                       {.name = "pipe 2, tensor 32, of that", .deck = 0.648, .bound = 0.15},
                       {.name = "pipe 4, tensor 16", .deck = 0.885, .bound = 0.1},
                       {.name = "pipe 16, tensor 4", .deck = 0.982, .bound = 0.1},
                       {.name = "pipe 32, tensor 2", .deck = 0.897, .bound = 0.1}},
           .ours = pipe_times_tensor,
           .note =
               "The deck's numbers are read off the plot (107, 146, 165, 162, 148). Ours are 13 to 28 % faster. Shape (32 layers of 20480, 128 heads) and batch "
               "(128) are not printed."},
      },
  };
}

}  // namespace trireme::reproduce

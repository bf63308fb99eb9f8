// The clusters that come with Trireme. Peaks, memory and links are the makers' figures; what share of them is
// reached is in `products`, `ops` and the rates of links, and `source` says where that comes from. `local` is
// not here: `trireme profile` measures it.
#include <algorithm>

#include "trireme/mesh/cluster_file.h"

namespace trireme {
namespace {

struct Shipped {
  std::string_view name;
  std::vector<std::string_view> toml;  // in parts, of which some are of several clusters
};

// H100 and H200 differ in their memory alone.
constexpr std::string_view kHopper = R"(launch_seconds = 4e-6
offload_bytes_per_second = 50e9
watts = 700
# maker's, dense; the best product measured on an H200 has 790e12 in bf16
flops_per_second = {bf16 = 989e12, f16 = 989e12, f32 = 67e12, tf32 = 494e12}
# attention: 307 and 210 TFLOP/s, forward and backward, measured on an H200
ops = {adam = 0.4, adam_rounded = 0.4, attention = 0.47, attention_grad = 0.32, attention_packed = 0.47, attention_packed_grad = 0.32}
[device.products]  # measured on an H200 with cuBLAS, sustained
m = [1024, 4096, 16384]
n = [1024, 4096, 16384]
k = [64, 256, 1024, 4096, 16384]
efficiency = [0.04, 0.12, 0.25, 0.43, 0.65,
              0.11, 0.3, 0.55, 0.71, 0.71,
              0.15, 0.4, 0.63, 0.71, 0.71,
              0.11, 0.3, 0.55, 0.71, 0.71,
              0.14, 0.38, 0.6, 0.71, 0.71,
              0.18, 0.45, 0.65, 0.71, 0.71,
              0.15, 0.4, 0.63, 0.71, 0.71,
              0.18, 0.45, 0.65, 0.71, 0.71,
              0.2, 0.52, 0.71, 0.71, 0.7]

)";
constexpr std::string_view kHopperHosts = R"(devices = 8
inside = "nvlink"
across = "infiniband"
cards = 8
levels_at_once = true

[[link]]
name = "nvlink"
alpha_seconds = 3e-6
bytes_per_second = 345e9             # bus bandwidth of NCCL's all_gather by 8 H100
all_reduce_bytes_per_second = 467e9  # of its all_reduce, because switches add (NVLS)
slowdown = 0.2                       # NCCL's kernels keep 24 to 32 of 132 multiprocessors

[[link]]
name = "infiniband"
alpha_seconds = 8e-6
bytes_per_second = 42e9  # of the maker's 50e9, nearly the share that a100 has of its 25e9
)";

const Shipped kShipped[] = {
    {"v100", {R"(
name = "V100 p3.16xlarge"
source = "makers' figures; efficiencies as of a100, not fitted to any run"

[[device]]
name = "v100"
memory_bytes = 16e9
bytes_per_second = 0.9e12
launch_seconds = 4e-6
offload_bytes_per_second = 12e9
watts = 300
flops_per_second = {f16 = 125e12, f32 = 15.7e12}
ops = {adam = 0.4, adam_rounded = 0.4, attention = 0.11, attention_grad = 0.11, attention_packed = 0.11, attention_packed_grad = 0.11}
[device.products]
k = [64, 512, 2048, 8192]
efficiency = [0.25, 0.5, 0.66, 0.8]

[[host]]
device = "v100"
devices = 8
inside = "nvlink"
across = "ethernet"
cards = 1

[[link]]
name = "nvlink"
alpha_seconds = 6e-6
bytes_per_second = 75e9

[[link]]
name = "ethernet"
alpha_seconds = 30e-6
bytes_per_second = 2.8e9
)"}},
    {"a100", {R"(
name = "DGX A100"
source = "makers' figures; efficiencies are one calibration, docs/simulator_experiments.md"

[[device]]
name = "a100"
memory_bytes = 80e9
bytes_per_second = 1.75e12
launch_seconds = 4e-6
offload_bytes_per_second = 24e9
watts = 400
flops_per_second = {bf16 = 312e12, f16 = 312e12, f32 = 19.5e12, tf32 = 156e12}
# attention: 170 and 140 TFLOP/s, forward and backward, as published of FlashAttention-2 for causal attention
ops = {adam = 0.4, adam_rounded = 0.4, attention = 0.7, attention_grad = 0.58, attention_packed = 0.7, attention_packed_grad = 0.58}
[device.products]  # tiles of 128 by 256 on 108 multiprocessors; depth as on an H200
m = [1024, 4096, 16384]
n = [1024, 4096, 16384]
k = [64, 256, 1024, 4096, 16384]
efficiency = [0.09, 0.22, 0.36, 0.42, 0.42,
              0.13, 0.35, 0.54, 0.6, 0.6,
              0.18, 0.45, 0.68, 0.76, 0.76,
              0.13, 0.35, 0.54, 0.6, 0.6,
              0.18, 0.45, 0.68, 0.76, 0.76,
              0.2, 0.5, 0.72, 0.79, 0.79,
              0.18, 0.45, 0.68, 0.76, 0.76,
              0.2, 0.5, 0.72, 0.79, 0.79,
              0.2, 0.5, 0.72, 0.79, 0.79]

[[host]]
device = "a100"
devices = 8
inside = "nvlink"
across = "infiniband"
cards = 8
levels_at_once = true

[[link]]
name = "nvlink"
alpha_seconds = 3e-6
bytes_per_second = 235e9

[[link]]
name = "infiniband"
alpha_seconds = 8e-6
bytes_per_second = 20e9
)"}},
    {"h100",
     {R"(
name = "HGX H100"
source = "maker's figures, and what was measured, as the comments say; other efficiencies as of a100; not fitted to any run"

[[device]]
name = "h100"
memory_bytes = 80e9
bytes_per_second = 3.0e12  # the maker says 3.35e12; the share of it that an H200 reaches
)",
      kHopper, R"([[host]]
device = "h100"
)",
      kHopperHosts}},
    {"h200",
     {R"(
name = "HGX H200"
source = "maker's figures, and what was measured, as the comments say; other efficiencies as of a100; not fitted to any run"

[[device]]
name = "h200"
memory_bytes = 141e9
bytes_per_second = 4.3e12  # measured in copies; the maker says 4.8e12
)",
      kHopper, R"([[host]]
device = "h200"
)",
      kHopperHosts}},
};

}  // namespace

std::vector<std::string> shipped_clusters() {
  std::vector<std::string> names;
  for (const Shipped& shipped : kShipped) names.emplace_back(shipped.name);
  return names;
}

std::string shipped_cluster(std::string_view name) {
  const auto* found = std::ranges::find(kShipped, name, &Shipped::name);
  if (found == std::end(kShipped)) return "";
  std::string toml;
  for (const std::string_view part : found->toml) toml += part;
  return toml.substr(1);  // without the first line, which is empty
}

}  // namespace trireme

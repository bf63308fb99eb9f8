// The table, and what reads it.
#include "trireme/plan/combinations.h"

#include <algorithm>

#include "trireme/base/enum_name.h"
#include "trireme/base/error.h"

namespace trireme {
namespace {

using enum Feature;

constexpr EnumNames<kFeatures> kNames = {
    "an axis pipe",
    "an axis besides data",
    "a preset or layouts that split tensors",
    "zero1, zero2 or zero3 without an axis replica",
    "layouts",
    "an asynchronous schedule (pipedream, 2bw)",
    "the schedule chimera",
    "offload",
    "offload of weights or gradients",
    "an algorithm for an axis",
    "batch_norm: synchronised",
    "a batch that other axes than data and replica split too",
    "an exchange",
    "an exchange by atomo, by pruned_ring or with a code",
    "an exchange with a warm-up",
    "an exchange with momentum of its own (dgc, signum, one_bit_adam)",
    "an exchange whose steps have a size of their own (signum, one_bit_adam)",
    "an exchange of weights (local, fedavg, diloco, delayed, d_psgd, sgp, ad_psgd)",
    "an exchange at ranks' own pace (ad_psgd, d_psgd with staleness)",
    "a parameter server",
    "several parameter servers",
    "train.shards",
    "train.precision=f16",
    "train.weight_precision in 16 bits",
    "train.gradient_precision in 16 bits",
    "train.noise_scale",
    "train.ema",
    "train.clip_norm",
    "an optimizer with moments",
    "data.partition",
    "train.on_nan or train.on_spike, other than by default",
    "train.numbers_every",
    "train.recheck_every",
    "train.device=cuda",
    "--transport nccl",
    "batch norm",
    "convolutions",
    "the preset megatron",
    "a mixture of experts (model.moe.experts)",
    "an axis expert",
    "an axis context",
    "an axis replica",
    "sequences in stripes (the presets striped and ring)",
};

// Their kernels are for CPUs alone: a code is written bit after bit, atomo decomposes matrices, and
// pruned_ring passes messages on.
bool computes_on_hosts(const Agreement& agreement) {
  for (size_t r = 0; r < agreement.rules().size(); ++r) {
    const std::string& method = agreement.rules()[r].method;
    const ExchangeSettings& settings = agreement.settings(r);
    if (method == "atomo" || method == "pruned_ring") return true;
    if (settings.words.contains("code") && settings.word("code") != "none") return true;
  }
  return false;
}

bool has_warm_up(const Agreement& agreement) {
  for (size_t r = 0; r < agreement.rules().size(); ++r) {
    const ExchangeSettings& settings = agreement.settings(r);
    if (settings.has("warmup") && settings.whole("warmup") > 0) return true;
  }
  return false;
}

}  // namespace

std::string_view name(Feature feature) {
  return kNames[static_cast<size_t>(feature)];
}

const std::vector<Combination>& combinations() {
  static const std::vector<Combination> rows = {
      // Pipelines and offload.
      {kPipe, kOffloadedModel,
       "a rank that offloads weights computes the model unit by unit, and stages have a schedule of their "
       "own; a schedule that fetches a stage's units would have to be built. Offload the optimizer's states "
       "alone"},
      {kPipe, kWarmUp,
       "the updates of early steps are other ones, and only the usual update is cut into those of stages; the "
       "others would have to be cut too. Set \"warmup\": 0"},
      {kAsynchronous, kClipNorm,
       "no stage waits for another's update, and the norm is of all stages' gradients; set "
       "train.clip_norm=0, or use a synchronous schedule"},
      {kAsynchronous, kF16,
       "no stage waits for another's update, and all stages agree on the loss scale in every step; use bf16 "
       "or f32, or a synchronous schedule"},
      {kAsynchronous, kRunningStatistics,
       "no stage waits for another's update, and every microbatch renews running statistics from what the "
       "one before left; use a synchronous schedule"},
      {kChimera, kRunningStatistics,
       "every microbatch renews running statistics from what the one before left, and two stages compute a "
       "chunk's microbatches at once; use a schedule that has each chunk on one stage, such as 1f1b"},
      {kOffload, kAverages,
       "averages are kept with the optimizer's states, which rest in files, and an evaluation can not read "
       "them there; it would have to fetch them"},
      {kOffloadedModel, kExchange,
       "offload cuts the update into parts, and an exchange takes all gradients at once; a method would have "
       "to work on the parts"},
      {kOffload, kWarmUp,
       "offload cuts the update into parts, and the updates of early steps would have other parts; both "
       "would have to be cut alike"},
      {kOffload, kOwnWeights,
       "offload cuts the update into parts, and a rank's own weights are kept beside those that all agree "
       "on; these would have to rest in files too"},
      {kOffload, kServed,
       "offload cuts the update into parts, and a server's update is one; a server would have to run the "
       "parts"},
      // How replicas agree, and how tensors are split.
      {kServed, kOtherAxes,
       "a worker is one rank so far; messages between groups of ranks would have to be built"},
      {kServed, kZero, "the server alone has the optimizer's states, and ZeRO splits them over all ranks"},
      {kServed, kLayouts, "workers send whole gradients; a server would have to know their parts"},
      {kOwnPace, kOtherAxes,
       "the ranks of a replica would hear of other replicas in orders of their own; they would have to agree "
       "on one. d_psgd without staleness and sgp work there"},
      {kSharedBatch, kOwnWeights,
       "where layers go over from rows to features, layouts gather the rows of all replicas; they would have "
       "to gather those of one replica alone. Use the preset data or megatron"},
      {kAsynchronous, kOwnWeights,
       "between two steps microbatches are under way that have seen older weights, and these would have to "
       "be averaged too; use a synchronous schedule"},
      {kOwnWeights, kZero,
       "ranks along data have weights and states of the optimizer of their own for a while, and ZeRO splits "
       "one set of them over all. Give the mesh an axis replica: then the ranks along that agree, and ZeRO "
       "splits over data inside a replica"},
      // What is measured or promised of dense sums.
      {kShards, kExchange,
       "shards give the same bits for any number of ranks, and an exchange leaves out parts of each rank's "
       "gradient"},
      {kShards, kReplicas,
       "shards add up ranks in pairs, and there would be pairs along two axes; use the axis data alone"},
      {kShards, kSplitTensors,
       "shards promise the same bits on any number of ranks, which holds for data parallelism alone: parts "
       "of tensors are added up in an order of their own"},
      {kShards, kPipe, "shards compute whole models on each rank, and a pipeline cuts the model"},
      {kShards, kOffloadedModel, "shards compute whole models on each rank, and offload cuts the model"},
      {kShards, kNccl, "shards add up in pairs, and NCCL in an order of its own"},
      {kAlgorithm, kNccl, "NCCL chooses its own algorithms"},
      {kShards, kOwnSamples,
       "shards give the same bits for any number of ranks, each with samples of its own"},
      {kNoiseScale, kExchange,
       "the noise scale compares the norm of the ranks' gradients with that of their sum, and an exchange "
       "makes something else of the sum"},
      {kNoiseScale, kPipe,
       "the noise scale is measured on all gradients at once, and a pipeline cuts the model"},
      {kNoiseScale, kOffloadedModel,
       "the noise scale is measured on all gradients at once, and offload cuts the model"},
      // Number formats, averages, clipping.
      {kOwnWeights, kF16,
       "ranks go on by themselves for some steps, and all agree on the loss scale in every step; use bf16 or "
       "f32"},
      {kServed, kF16,
       "workers have a step of their own, and all ranks agree on the loss scale in every step; use bf16 or "
       "f32"},
      {kOwnWeights, kHalfWeights, "means are taken of f32 weights; they would have to be taken of masters"},
      {kServed, kHalfWeights,
       "the server gives f32 weights; it would have to give those of workers in 16 bits"},
      {kExchange, kHalfGradients, "methods compress f32 gradients; they would have to widen them first"},
      {kOwnWeights, kAverages,
       "ranks have weights of their own between meetings, so that there is no one weight to average; "
       "averages would have to be kept of what they agree on"},
      {kServed, kAverages, "a server does not keep averages yet"},
      {kServers, kClipNorm,
       "each server has the gradients of some parameters, and the norm is of all; servers would have to tell "
       "each other. Set train.clip_norm=0, or use one server"},
      {kOwnMomentum, kMoments,
       "both would keep a momentum of the same gradients; use optim.kind=sgd, or \"momentum\": 0 for the "
       "exchange"},
      {kOwnSteps, kClipNorm,
       "clipping would do nothing but make all steps smaller alike; set train.clip_norm=0 and the rate "
       "instead"},
      {kOwnSamples, kSharedBatch,
       "each rank along data has samples of its own, and the rows of a batch would be dealt out over other "
       "axes too; those would have to read the same samples. Use data.partition=iid"},
      {kOwnSamples, kReplicas,
       "each replica has samples of its own, and the rows of a batch would be dealt out over data too; those "
       "ranks would have to read the same samples. Use data.partition=iid"},
      {kOwnSamples, kServed,
       "samples are dealt out over the axis data, servers included, and only workers compute; they would "
       "have to be counted alone. Use data.partition=iid"},
      // Bad steps, and the numbers of gradients and updates.
      {kBadSteps, kExchange,
       "an exchange takes in a gradient before all ranks know its loss; what it keeps would have to wait for "
       "that. Leave train.on_nan=stop and train.on_spike=none"},
      {kBadSteps, kAsynchronous,
       "no stage waits for another's update, and the last one alone knows the loss; use a synchronous "
       "schedule"},
      {kBadSteps, kOffload,
       "offload cuts the update into parts, and each would have to know the loss. Leave train.on_nan=stop and "
       "train.on_spike=none"},
      {kNumbers, kExchange,
       "an exchange makes something else of gradients between the two moments that are compared; its methods "
       "would have to be counted too"},
      {kNumbers, kAsynchronous,
       "updates of some stages come before gradients of others, and all are counted between the two; use a "
       "synchronous schedule"},
      {kNumbers, kOffload,
       "what rests in files is not there between gradients and update; it would have to be counted in parts"},
      {kRecheck, kExchange,
       "an exchange keeps something of the gradients that it was given, or has no sums of its step to compare; "
       "what it keeps would have to be put back before they are made again"},
      {kRecheck, kAsynchronous,
       "the gradients of a step are made beside updates, which can not be made again; use a synchronous "
       "schedule"},
      {kRecheck, kOffload,
       "what rests in files comes and goes while gradients are made; it would have to be read again too"},
      {kRecheck, kCuda,
       "hashes are made of host memory, and the memory of GPUs for training corrects single bits itself"},
      // Models and machines.
      {kServed, kSynchronisedNorm,
       "workers compute by themselves, each with the statistics of its own rows; leave batch_norm out, or "
       "say local"},
      {kOwnWeights, kSynchronisedNorm,
       "ranks compute by themselves, each with the statistics of its own rows; leave batch_norm out, or say "
       "local"},
      {kHostMethod, kCuda,
       "what it makes of gradients has kernels for CPUs alone; those for a GPU would have to be written. "
       "Use another method, or top_k and dgc without \"code\""},
      // Mixtures of experts.
      {kExperts, kAsynchronous,
       "no stage waits for another's update, and the load of experts is told to all stages in it; use a "
       "synchronous schedule"},
      {kExperts, kOwnWeights,
       "ranks go on by themselves for some steps, and the load of experts is added up over all of them in "
       "each; each rank's own would have to be kept"},
      {kExperts, kServed,
       "workers send gradients alone so far; the load of experts would have to be sent too"},
      {kExperts, kOffloadedModel,
       "the update is cut into parts by weights, and the load of experts goes with none; a part of its own "
       "would have to be built. Offload the optimizer's states alone"},
      {kExpertAxis, kExchange,
       "methods compress what ranks along data add up, and dense gradients are added up along expert too; "
       "methods would have to take both axes"},
      // Sequences that ranks share.
      {kContextAxis, kExperts,
       "tokens of a routing group compete for slots, and the ranks along context have parts of it; slots would "
       "have to be counted over all of them"},
      {kContextAxis, kExchange,
       "methods compress what ranks along data add up, and gradients are added up along context too; methods "
       "would have to take both axes"},
      {kStripes, kCuda,
       "kernels for a GPU take one run of the queries of a sequence; they would have to take stripes. Use the "
       "preset context or ulysses"},
      {kMegatron, kConvolutions,
       "megatron leaves convolutions whole, so that every rank of the axis tensor would do all of them; "
       "hybrid_cnn splits them by batch"},
  };
  return rows;
}

Features features_of(const Plan& plan) {
  Features features;
  const auto add = [&](Feature feature, bool there) {
    if (there) features.insert(feature);
  };
  const Agreement& agreement = plan.agreement;
  add(kPipe, plan.pipeline_stages() > 1);
  add(kOtherAxes, std::ranges::any_of(plan.mesh.axes(), [](const Axis& axis) {
        return axis.name != kDataAxis && axis.name != kServerAxis && axis.size > 1;
      }));
  add(kSplitTensors, plan.preset != "data" || !plan.layouts.empty());
  const bool zero = plan.has("zero1") || plan.has("zero2") || plan.has("zero3");
  add(kZero, zero && replica_axis(plan.mesh) == kDataAxis);
  add(kLayouts, !plan.layouts.empty());
  add(kAsynchronous, plan.pipeline_stages() > 1 && (plan.schedule == "pipedream" || plan.schedule == "2bw"));
  add(kChimera, plan.pipeline_stages() > 1 && plan.schedule == "chimera");
  add(kOffload, plan.offload.has_value());
  add(kOffloadedModel, plan.offload && plan.offload->cuts_model());
  add(kAlgorithm,
      std::ranges::any_of(plan.algorithms, [](const auto& one) { return one.second != "automatic"; }));
  add(kSynchronisedNorm, plan.batch_norm == Plan::BatchNorm::kSynchronised);
  add(kExchange, !agreement.is_dense());
  add(kHostMethod, computes_on_hosts(agreement));
  add(kWarmUp, has_warm_up(agreement));
  add(kOwnWeights, agreement.has_own_weights());
  add(kOwnPace, agreement.has_own_weights() && !agreement.is_in_step());
  add(kServed, agreement.servers() != nullptr);
  add(kServers, agreement.servers() && agreement.servers()->count > 1);
  add(kMegatron, plan.has("megatron"));
  const auto has_axis = [&](std::string_view name) {
    const int axis = plan.mesh.find(name);
    return axis >= 0 && plan.mesh.axes()[axis].size > 1;
  };
  add(kExpertAxis, has_axis("expert"));
  add(kContextAxis, has_axis("context"));
  add(kReplicas, replica_axis(plan.mesh) == kReplicaAxis);
  const Preset* context = plan.preset_over("context");
  add(kStripes, has_axis("context") && context && context->dealt == Dealt::kStripes);
  return features;
}

const Combination* refused_by(const Features& features) {
  const auto& rows = combinations();
  const auto row = std::ranges::find_if(rows, [&](const Combination& one) {
    return features.contains(one.one) && features.contains(one.other);
  });
  return row == rows.end() ? nullptr : &*row;
}

void check_combinations(const Features& features, std::string_view source) {
  if (const Combination* row = refused_by(features))
    throw_error("{}{}{} and {} do not go together: {}", source, source.empty() ? "" : ": ", name(row->one),
                name(row->other), row->reason);
}

std::string combinations_document() {
  std::string text =
      "# What does not go together\n\n"
      "Made by `trireme inspect combinations` from the table in `trireme/plan/combinations.cc`; a test "
      "compares the two.\n"
      "Each pair is refused, before anything runs, with the reason. A pair that is not here works, and "
      "`trireme verify` or\nan exact reference in the tests says so.\n\n"
      "| what | with what | why not |\n|---|---|---|\n";
  for (const Combination& row : combinations())
    text += fmt::format("| {} | {} | {} |\n", name(row.one), name(row.other), row.reason);
  return text;
}

}  // namespace trireme

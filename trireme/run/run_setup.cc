// See run_setup.h.
#include "trireme/run/run_setup.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/data/partition.h"
#include "trireme/exchange/agreement_record.h"
#include "trireme/plan/clients.h"
#include "trireme/program/verify.h"
#include "trireme/run/run_setup.h"
#include "trireme/train/features.h"

namespace trireme {

int thread_count(const TrainOptions& train, int ranks_here) {
  return train.threads ? static_cast<int>(train.threads)
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks_here);
}

DataOptions data_options(const Config& config, const std::string& default_path) {
  if (config.data.path.empty() && default_path.empty())
    throw_error(
        "data.path is not set, and the text of Trireme's own sources, which stands in for it, is not there "
        "any more; give a file or folder to train on: --data.path=TEXT");
  DataOptions options;
  options.kind = config.data.path.empty() ? "text" : config.data.kind;
  options.path = config.data.path.empty() ? default_path : config.data.path;
  options.validation = config.data.validation_fraction;
  options.seed = static_cast<uint64_t>(config.train.seed);
  options.tokenizer = config.data.tokenizer;
  options.tokenizer_path = config.data.tokenizer_path;
  options.seq = config.model.seq;
  options.source_seq = config.model.source_seq;
  // Nothing else is of use to a model of pairs, whatever a file is called.
  if (options.kind == "auto" && find_model(config.model).input == InputKind::kPairs) options.kind = "pairs";
  options.vocab = config.model.vocab;
  options.masked_fraction =
      find_model(config.model).targets == Targets::kMasked ? config.data.masked_fraction : 0;
  options.folder.height = config.data.image_height;
  options.folder.width = config.data.image_width;
  options.mean.assign(config.data.mean.begin(), config.data.mean.end());
  options.deviation.assign(config.data.deviation.begin(), config.data.deviation.end());
  if (config.data.augment) {
    options.crop_padding = 4;
    options.flip = Flip::horizontal;
  }
  return options;
}

OpenedData open_run_data(const Config& config, const std::string& default_path) {
  return open_data(data_options(config, default_path));
}

ModelOptions complete_model(const ModelRecord& record, const Config& config, const OpenedData& data) {
  ModelOptions model = config.model;
  if (record.input == InputKind::kOwn) return model;
  const bool tokens = reads_text(record);
  if (tokens && (record.input == InputKind::kPairs) != (data.input.rank() == 2)) {
    throw_error("model.family = {} learns from {}, but the data is {} ({})", model.family,
                record.input == InputKind::kPairs ? "pairs of a source and a target" : "text", data.kind,
                data.summary);
  }
  if (tokens != (data.vocab > 0)) {
    throw_error("model.family = {} learns from {}, but the data is {} ({})", model.family,
                tokens ? "text" : "images", data.kind, data.summary);
  }
  if (tokens && model.vocab == 0) model.vocab = data.vocab;
  if (!tokens && model.classes == 0) model.classes = static_cast<int64_t>(data.classes.size());
  if (!tokens && model.classes < static_cast<int64_t>(data.classes.size())) {
    throw_error("model.classes is {}, but the data has {} classes", model.classes, data.classes.size());
  }
  return model;
}

ModelOptions assumed_model(const ModelRecord& record, ModelOptions model) {
  constexpr int64_t kVocab = 256, kClasses = 10;  // bytes; digits
  if (reads_text(record) && model.vocab == 0) model.vocab = kVocab;
  if (record.input == InputKind::kImages && model.classes == 0) model.classes = kClasses;
  return model;
}

void add_own_samples(const Config& config, const OpenedData& data, const RankOptions& ranks,
                     LoaderOptions& options) {
  const DataPartition how = data_partition(config.data.partition);
  const int64_t replicas = replicas_of(ranks.plan.mesh);
  if (how == DataPartition::kIid || replicas == 1) return;
  Features features = features_of(ranks.plan, config.train);
  features.insert(Feature::kOwnSamples);
  check_combinations(features);
  const DirichletShares shares{config.data.dirichlet_alpha, static_cast<uint64_t>(config.train.seed)};
  const Clients clients(ranks.plan.agreement, replicas);
  std::vector<std::vector<uint32_t>> samples = partitioned(*data.train, how, clients.count(), shares);
  const int64_t replica = replica_of(ranks.plan.mesh, ranks.rank);
  if (ranks.plan.agreement.way() != ExchangeKind::Of::kWeightedMeans) {
    options.own = std::move(samples[static_cast<size_t>(replica)]);
    return;
  }
  options.clients = std::move(samples);
  options.turn_of = [clients, replica](int64_t batch) -> LoaderOptions::Turn {
    const int64_t client = clients.trained(batch, replica).value_or(0);  // nobody looks at an idle rank's
    return {static_cast<size_t>(client), clients.steps_before(batch, client)};
  };
}

RankOptions between_steps(const RankOptions& ranks) {
  const std::vector<int> members = keepers(ranks.plan.agreement);
  if (members.empty()) return ranks;
  Plan plan;
  if (members.size() == 1 || std::ranges::find(members, ranks.rank) == members.end())
    return {plan, 0, ranks.communicator, ranks.trace};
  ranks.communicator->add_group(std::string(kServerAxis), members);
  plan.mesh = Mesh({{std::string(kServerAxis), static_cast<int>(members.size())}});
  return {plan, ranks.rank, ranks.communicator, ranks.trace};
}

void verify_before_steps(const Program& own, const std::function<Program(int rank)>& others) {
  const int ranks = own.mesh.ranks();
  try {
    if (own.rank > 0 || ranks == 1 || ranks > kVerifiedTogether) return verify(own);
    std::vector<Program> all = {own};
    for (int rank = 1; rank < ranks; ++rank) all.push_back(others(rank));
    verify(all);
  } catch (const Error& error) {
    throw_error(
        "the run was not begun, because its program on the mesh '{}' would go wrong: {}. That is a defect of "
        "Trireme, not of the settings; please report it with the plan, and use another plan meanwhile",
        to_string(own.mesh), error.what());
  }
}

}  // namespace trireme
